"""What costs most by cause: the table of the report, its CSV, and the lines below a run."""

import csv
import io
from collections.abc import Iterator, Sequence

from warpsmith.evaluation.causes import Cause, Cost, cause_of, costs_by_cause, is_timed
from warpsmith.evaluation.metrics import by_series
from warpsmith.evaluation.row import Row
from warpsmith.report.spreadsheet import cell
from warpsmith.report.table import KINDS, NONE, Line, Table
from warpsmith.reward import SpeedupKind

NAMES = 8
"""Tasks that a cell names; the CSV names all."""
TOP = 5
"""Lines below a run."""
_EXAMPLE = 160


def causes_table(rows: Sequence[Row]) -> Table | None:
    """Of each series under each protocol that was measured, the dearest first; None where nothing fell short."""
    lines = [
        Line(
            (
                series,
                kind.value if kind else NONE,
                _name(cost.cause, cost.what),
                *_figures(cost),
                _named(cost),
                _example(cost),
            )
        )
        for series, kind, cost in _costs(rows)
    ]
    if not lines:
        return None
    return Table(
        key="causes",
        title="What costs most, by cause",
        heads=(
            "whose", "protocol", "cause", "samples", "tied", "passed −%", "faster −%", "× to gain", "tasks",
            "such as",
        ),
        lines=tuple(lines),
        words=3,
        note=(
            "Whatever did not pass, or passed and is not faster: under paper than torch.compile, under matched than "
            "the fastest baseline that is as accurate. Each sample counts for one cause. passed and faster: "
            "points of all tasks that it costs. × to gain: by what the geometric mean over all, failures as 1, "
            "would grow if these samples were like those that are faster; all lines together lead there."
        ),
        wrapped=frozenset({2, 8, 9}),
    )  # fmt: skip


def causes_csv(rows: Sequence[Row]) -> str:
    """One line a cause, with every task's name."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["series", "protocol", "cause", "what", "samples", "tied", "passed_share", "faster_share", "geomean_factor",
         "tasks", "example"]
    )  # fmt: skip
    for series, kind, cost in _costs(rows):
        cells = (
            series, kind.value if kind else None, cost.cause.value, cost.what, cost.samples, cost.tied, cost.passed,
            cost.faster, cost.geomean, "; ".join(cost.tasks), cost.example,
        )  # fmt: skip
        writer.writerow(map(cell, cells))
    return out.getvalue()


def cause_names(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Of each row, its cause under each of KINDS; empty where it falls short of nothing."""
    lines = by_series(rows)
    timed = {(series, kind): is_timed(of, kind) for series, of in lines.items() for kind in KINDS}
    found = [[cause_of(row, kind, timed=timed[row.series, kind]) for kind in KINDS] for row in rows]
    return [tuple(_name(*cause) if cause else "" for cause in causes) for causes in found]


def cause_lines(costs: Sequence[Cost]) -> list[str]:
    """The dearest causes, a line each: `not covered, left to PyTorch (aten.lstm): 3 samples, …`."""
    lines = [f"{_name(cost.cause, cost.what)}: {_in_words(cost)}" for cost in costs[:TOP]]
    return [*lines, f"{len(costs) - TOP} more causes"] if len(costs) > TOP else lines


def _costs(rows: Sequence[Row]) -> Iterator[tuple[str, SpeedupKind | None, Cost]]:
    """Of each series and protocol; a series without any time has the failures alone, under no protocol."""
    for series, of in by_series(rows).items():
        kinds = [kind for kind in KINDS if is_timed(of, kind)]
        for kind in kinds:
            yield from ((series, kind, cost) for cost in costs_by_cause(of, kind))
        if not kinds:
            yield from ((series, None, cost) for cost in costs_by_cause(of, SpeedupKind.MATCHED))


def _name(cause: Cause, what: str) -> str:
    return f"{cause.value} ({what})" if what else cause.value


def _figures(cost: Cost) -> tuple[str, ...]:
    shares = (cost.passed, cost.faster)
    points = (NONE if share is None else f"{100 * share:.1f}" for share in shares)
    return (
        str(cost.samples),
        str(cost.tied),
        *points,
        NONE if cost.geomean is None else f"{cost.geomean:.3f}",
    )


def _named(cost: Cost) -> str:
    more = len(cost.tasks) - NAMES
    return ", ".join(cost.tasks[:NAMES]) + (f" and {more} more" if more > 0 else "")


def _example(cost: Cost) -> str:
    said = " ".join(cost.example.split())
    return said[:_EXAMPLE] + ("…" if len(said) > _EXAMPLE else "")


def _in_words(cost: Cost) -> str:
    parts = [f"{cost.samples} sample{'' if cost.samples == 1 else 's'}"]
    if cost.passed:
        parts.append(f"{100 * cost.passed:.1f} points of passed")
    if cost.faster is not None and not cost.passed:
        parts.append(f"{100 * cost.faster:.1f} points of faster")
    if cost.geomean is not None:
        parts.append(f"geomean ×{cost.geomean:.3f}")
    shown = ", ".join(cost.tasks[:3]) + (", …" if len(cost.tasks) > 3 else "")
    return f"{', '.join(parts)}: {shown}"
