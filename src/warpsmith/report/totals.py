"""Counts of a report's tables, over all its tasks: what is missing or failed never counts as a win."""

import math
from collections.abc import Sequence

from warpsmith.report.rows import TaskRow
from warpsmith.types import Record

LEVELS = (None, 1, 2, 3, 4)


class Totals(Record):
    """One line of the table: shares in percent of all `tasks`; geometric means over passes that were timed."""

    tasks: int
    pass_pct: float
    faster_eager_pct: float
    faster_compile_pct: float
    geomean_eager: float | None
    geomean_compile: float | None


def totals(rows: Sequence[TaskRow], protocol: str) -> Totals | None:
    """The counts under `paper` or `matched`; None where there is no task."""
    if not rows:
        return None
    eager, compiled = (
        [r for row in rows if (r := row.ratio(protocol, side)) is not None] for side in ("eager", "compile")
    )
    return Totals(
        tasks=len(rows),
        pass_pct=100 * sum(row.passed for row in rows) / len(rows),
        faster_eager_pct=100 * sum(r > 1 for r in eager) / len(rows),
        faster_compile_pct=100 * sum(r > 1 for r in compiled) / len(rows),
        geomean_eager=geomean(eager),
        geomean_compile=geomean(compiled),
    )


def of_level(rows: Sequence[TaskRow], level: int | None) -> list[TaskRow]:
    """The tasks of a level; all for None."""
    return [row for row in rows if level is None or row.level == level]


def geomean(values: Sequence[float]) -> float | None:
    """Geometric mean; None of nothing."""
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if values else None


def fast_p(rows: Sequence[TaskRow], protocol: str, p: float) -> float:
    """Share of all tasks that passed and are more than `p` times as fast as eager (KernelBench, arXiv 2502.10517)."""
    ratios = (row.ratio(protocol, "eager") for row in rows)
    return sum(r is not None and r > p for r in ratios) / len(rows) if rows else 0.0
