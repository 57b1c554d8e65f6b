"""Old and new verdicts side by side."""

from collections.abc import Iterator, Sequence

from warpsmith.evaluation.regrading import Regraded, Rescored
from warpsmith.types import Reward, Verdict

_NONE = "–"


def regraded_lines(rows: Sequence[Regraded]) -> Iterator[str]:
    """One line a submission: status and speed-ups (eager, compile) then and now, then counts."""
    cells = [("task", "submission", "status then", "status now", "speed-up then", "speed-up now", "")]
    for row in rows:
        then = (row.old.status.value if row.old else "not judged", _ratios(row.old))
        cells.append(
            (
                row.task_name,
                row.submission_hash[:8],
                then[0],
                row.new.status.value,
                then[1],
                _ratios(row.new),
                "changed" if row.changed else "",
            )
        )
    yield from _aligned(cells)
    yield from (
        f"{row.submission_hash[:8]} now {row.new.status}: {row.new.detail}" for row in rows if row.changed
    )
    yield _counted(rows, "submission", "status")


def rescored_lines(rows: Sequence[Rescored]) -> Iterator[str]:
    """One line a stored verdict: the reward recorded and today's, then counts."""
    cells = [("task", "submission", "status", "reward then", "reward now", "")]
    for row in rows:
        then = _reward(row.old) if row.recorded else "not recorded"
        changed = "changed" if row.changed else ""
        cells.append((row.task_name, row.submission_hash[:8], row.status, then, _reward(row.new), changed))
    yield from _aligned(cells)
    yield _counted(rows, "verdict", "reward")


def _aligned(cells: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _counted(rows: Sequence[Regraded] | Sequence[Rescored], noun: str, what: str) -> str:
    changed = sum(row.changed for row in rows)
    plural = "" if len(rows) == 1 else "s"
    return f"{len(rows)} {noun}{plural}, {changed} with another {what}"


def _ratios(verdict: Verdict | None) -> str:
    if verdict is None or verdict.speedup is None:
        return _NONE
    paper, matched = verdict.speedup.paper, verdict.speedup.matched
    text = f"{_ratio(paper.eager)} {_ratio(paper.compile)}"
    return f"{text} ({_ratio(matched.eager)} {_ratio(matched.compile)} matched)" if matched else text


def _ratio(value: float | None) -> str:
    return _NONE if value is None else f"{value:.3g}×"


def _reward(reward: Reward | None) -> str:
    return "none" if reward is None or reward.milestone is None else str(reward.milestone)
