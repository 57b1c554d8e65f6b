"""The published figures of the CUDA Agent paper (arXiv 2602.24286, Table 1), KernelBench levels 1 to 3."""

from warpsmith.types import Record


class PublishedRow(Record):
    """Shares in percent of all tasks; geometric means over correct solutions."""

    pass_pct: float
    faster_eager_pct: float
    faster_compile_pct: float
    geomean_eager: float
    geomean_compile: float


PUBLISHED_NAME = "CUDA Agent (arXiv 2602.24286)"


def published(level: int | None) -> PublishedRow | None:
    """The paper's row for a level, or for all (None); None where it has none."""
    rows = {
        None: (98.8, 98.4, 96.8, 2.60, 2.11),
        1: (100.0, 99.0, 97.0, 2.48, 1.87),
        2: (100.0, 100.0, 100.0, 3.27, 2.80),
        3: (94.0, 94.0, 90.0, 1.80, 1.52),
    }
    if level not in rows:
        return None
    return PublishedRow(**dict(zip(PublishedRow.model_fields, rows[level], strict=True)))
