"""Published figures: the CUDA Agent paper (arXiv 2602.24286v1), Tables 1 and 2, KernelBench levels 1 to 3.

Its abstract gives 100, 100 and 92 % faster than torch.compile by level where Table 1 has 97, 100 and 90; the overall
96.8 % of both tables follows from the latter (97 + 100 + 45 of 250), so those stand here.
"""

from warpsmith.types import Record


class PublishedRow(Record):
    """Shares in percent of all tasks; geometric means over correct solutions, the best of each trajectory."""

    pass_pct: float
    faster_eager_pct: float
    faster_compile_pct: float
    geomean_eager: float
    geomean_compile: float


PUBLISHED_NAME = "CUDA Agent (arXiv 2602.24286)"
WHOLE = "CUDA Agent"


def published(level: int | None) -> PublishedRow | None:
    """Table 1: the paper's row for a level, or for all (None); None where it has none."""
    rows = {
        None: (98.8, 98.4, 96.8, 2.60, 2.11),
        1: (100.0, 99.0, 97.0, 2.48, 1.87),
        2: (100.0, 100.0, 100.0, 3.27, 2.80),
        3: (94.0, 94.0, 90.0, 1.80, 1.52),
    }
    return _row(rows[level]) if level in rows else None


def published_ablation(name: str) -> PublishedRow | None:
    """Table 2, over all levels, by the paper's own name of the row; None where it has none."""
    rows = {
        "w/o Agent Loop": (77.1, 43.5, 14.1, 0.89, 0.69),
        "w/o Robust Reward": (96.8, 90.4, 60.4, 1.70, 1.25),
        "w/o RFT": (95.6, 82.0, 49.8, 1.56, 1.05),
        "w/o Value Pretraining": (98.6, 85.0, 50.9, 1.49, 1.00),
        WHOLE: (98.8, 98.4, 96.8, 2.60, 2.11),
    }
    return _row(rows[name]) if name in rows else None


def _row(values: tuple[float, ...]) -> PublishedRow:
    return PublishedRow(**dict(zip(PublishedRow.model_fields, values, strict=True)))
