"""Why tasks fail or fall short, and what each cause costs. Imports no torch.

A sample falls short where it passed and is not faster than torch.compile, or under `matched` than the fastest
competing baseline. docs/metrics.md has the formulas.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from enum import StrEnum

from warpsmith.errors import UsageError
from warpsmith.evaluation.metrics import order
from warpsmith.evaluation.row import Against, Row, Score, State, checked
from warpsmith.reward import SpeedupKind
from warpsmith.types import Record, Status, StopReason

LIBRARY_SHARE = 0.5
"""Of the device time, from which on a slow sample is said to be bound by its products."""
NEAR_FLOOR = 0.5
"""Share of the byte floor from which on there is little left to gain."""


class Cause(StrEnum):
    """The first that holds, in this order."""

    MISSING = "never begun"
    LOST = "lost to the machine"
    TASK = "the task is refused"
    UNSUPPORTED = "not supported"
    NOT_COVERED = "not covered, left to PyTorch"
    NOTHING = "nothing submitted"
    CHEATED = "cheated"
    WRONG = "wrong"
    COMPILE_FAILED = "compile failed"
    CRASHED = "crashed"
    TIMED_OUT = "timed out"
    UNSTABLE = "unstable"
    UNTIMED = "passed, not timed"
    LAUNCHES = "slower, launch-bound"
    LEFT = "slower, operators left to PyTorch"
    PRODUCTS = "slower, GEMM-bound"
    FAR = "slower, far from the byte floor"
    NEAR = "slower, near the byte floor"
    SLOWER = "slower, nothing tells why"


_BY_STATUS = {
    Status.INFRASTRUCTURE: Cause.LOST,
    Status.TASK_REFUSED: Cause.TASK,
    Status.UNSUPPORTED: Cause.UNSUPPORTED,
    Status.CHEATED: Cause.CHEATED,
    Status.WRONG: Cause.WRONG,
    Status.COMPILE_FAILED: Cause.COMPILE_FAILED,
    Status.CRASHED: Cause.CRASHED,
    Status.TIMED_OUT: Cause.TIMED_OUT,
    Status.UNSTABLE: Cause.UNSTABLE,
}


class Cost(Record):
    """One cause. Shares are of everything, each task weighing the same."""

    cause: Cause
    what: str
    """Which operators, check or end; empty where the cause says it all."""
    samples: int
    tied: int
    """Of `samples`, those that passed and may be as fast, within noise."""
    passed: float
    """The share that it costs of what passes: 0 where all of it passed."""
    faster: float | None
    """The share that it costs of what is faster; None where no time was measured."""
    geomean: float | None
    """By what the geometric mean over everything, failures as 1.0, would grow if these were like the faster ones.

    None where nothing is faster. All causes' factors together lead to the geometric mean of what is faster.
    """
    tasks: tuple[str, ...]
    """By name, in order, each once."""
    example: str = ""
    """What was said of the first one."""


def side_of(kind: SpeedupKind) -> Against:
    """What a sample must be faster than, not to fall short."""
    return Against.PAPER_COMPILE if kind is SpeedupKind.PAPER else Against.MATCHED_BEST


def is_timed(rows: Sequence[Row], kind: SpeedupKind) -> bool:
    """Whether anything was measured under a protocol: else nobody can tell what falls short."""
    return any(row.measured(side_of(kind)) for row in rows)


def cause_of(row: Row, kind: SpeedupKind, *, timed: bool = True) -> tuple[Cause, str] | None:
    """Why a sample fails or falls short, and which operators, check or end; None where it does neither.

    `timed` False: nothing was measured, and whatever passed is well.
    """
    if row.best is None or not row.passed():
        return _failure(row)
    if not timed:
        return None
    seen = row.measured(side_of(kind))
    if seen is None:
        return Cause.UNTIMED, ""
    return None if seen.faster else _shortfall(row.best, row.left)


def costs_by_cause(rows: Sequence[Row], kind: SpeedupKind) -> tuple[Cost, ...]:
    """What costs most first, of one series: by what is lost of the faster ones, then by geometric mean.

    Raises UsageError for no rows, or one row twice.
    """
    if not rows:
        raise UsageError("there are no tasks", hint="give a run that planned some")
    timed = is_timed(rows, kind)
    samples = Counter(row.task_key for row in checked(rows))
    weights = [1 / (samples[row.task_key] * len(samples)) for row in rows]
    logs = [math.log(m.ratio) if (m := row.measured(side_of(kind))) else 0.0 for row in rows]
    grouped: dict[tuple[Cause, str], list[int]] = defaultdict(list)
    good = []
    for i, row in enumerate(rows):
        if found := cause_of(row, kind, timed=timed):
            grouped[found].append(i)
        else:
            good.append(i)
    of_good = math.fsum(weights[i] for i in good)
    aim = math.fsum(weights[i] * logs[i] for i in good) / of_good if timed and good else None
    costs = [
        _cost(cause, what, [rows[i] for i in of], math.fsum(weights[i] for i in of), kind, timed=timed,
              gain=None if aim is None else math.fsum(weights[i] * (aim - logs[i]) for i in of))
        for (cause, what), of in grouped.items()
    ]  # fmt: skip
    return tuple(sorted(costs, key=_dearest))


def _cost(
    cause: Cause,
    what: str,
    of: list[Row],
    share: float,
    kind: SpeedupKind,
    *,
    timed: bool,
    gain: float | None,
) -> Cost:
    inside = sorted(of, key=order)
    seen = [row.measured(side_of(kind)) for row in inside]
    return Cost(
        cause=cause,
        what=what,
        samples=len(inside),
        tied=sum(m is not None and m.tied for m in seen),
        passed=0.0 if inside[0].passed() else share,
        faster=share if timed else None,
        geomean=None if gain is None else math.exp(gain),
        tasks=tuple(dict.fromkeys(row.task_name for row in inside)),
        example=next((row.detail for row in inside if row.detail), ""),
    )


def _dearest(cost: Cost) -> tuple[float, float, int, str]:
    share = cost.passed if cost.faster is None else cost.faster
    # sums of the same shares in another order are the same share
    return -round(share, 12), -round(cost.geomean or 0.0, 12), list(Cause).index(cost.cause), cost.what


def _failure(row: Row) -> tuple[Cause, str]:
    if row.state is State.MISSING:
        return Cause.MISSING, ""
    if row.state is State.UNFINISHED:
        return Cause.LOST, _said(row.stop)
    if row.best is None:
        return _nothing(row)
    operators = ", ".join(row.left)
    if row.best.status is Status.CHEATED:
        # a policy that says what it left to PyTorch hides nothing: the rules do not take it
        return (Cause.NOT_COVERED, operators) if operators else (Cause.CHEATED, row.best.check)
    return _BY_STATUS[row.best.status], ""


def _nothing(row: Row) -> tuple[Cause, str]:
    if row.left:
        return Cause.NOT_COVERED, ", ".join(row.left)
    if row.stop is StopReason.TASK_UNSUPPORTED:
        return Cause.UNSUPPORTED, ""
    if row.stop is StopReason.TASK_REFUSED:
        return Cause.TASK, ""
    return Cause.NOTHING, _said(row.stop)


def _shortfall(score: Score, left: tuple[str, ...]) -> tuple[Cause, str]:
    """Of a sample that passed and is not faster."""
    if score.launch_bound:
        return Cause.LAUNCHES, ""
    if left:
        return Cause.LEFT, ", ".join(left)
    if score.compute_bound or (score.library_share or 0.0) >= LIBRARY_SHARE:
        return Cause.PRODUCTS, ""
    if score.floor_share is None:
        return Cause.SLOWER, ""
    return (Cause.NEAR if score.floor_share >= NEAR_FLOOR else Cause.FAR), ""


def _said(stop: StopReason | None) -> str:
    return stop.value.replace("_", " ") if stop else ""
