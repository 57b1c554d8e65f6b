"""The observer's two parts, and where a job's folder holds them."""

from pathlib import Path

KERNELS, OPERATORS = "kernels", "operators"
PARTS = (KERNELS, OPERATORS)


def library(folder: Path, part: str) -> Path:
    """Where a part lies; what there is to say where it could not be built stands beside it as `.txt`."""
    return folder / f"{part}.so"
