"""Two runs over the same tasks: paired differences with bootstrap intervals over tasks. Imports no torch."""

import math
import random
from collections.abc import Callable, Mapping, Sequence

from warpsmith.errors import UsageError
from warpsmith.evaluation.bootstrap import RESAMPLES, percentile_ends
from warpsmith.evaluation.row import Against, Row
from warpsmith.types import Record


class Paired(Record):
    """One quantity in two runs over the tasks that both have; `difference` is second minus first, in its own unit.

    For a geometric mean `difference` is a ratio, and no difference is 1.
    """

    name: str
    tasks: int
    first: float
    second: float
    difference: float
    low: float
    high: float
    significant: bool
    """Whether the 95 % interval leaves out no difference."""


def compared(first: Sequence[Row], second: Sequence[Row]) -> list[Paired]:
    """Every figure that both have, second against first, over the tasks that both have: samples are averaged first.

    Shares and the mean with fallback are over all common tasks, plain geometric means over those that both passed
    with a time. Raises UsageError where no task is in both.
    """
    tasks = [_by_task(rows) for rows in (first, second)]
    found = [paired_mean("pass rate", *(_shares(of, Row.passed) for of in tasks))]
    for against in Against:
        if not all(any(row.measured(against) for row in rows) for rows in (first, second)):
            continue
        name = f"{against.kind.value}, vs {against.side}"

        def faster(row: Row, against: Against = against) -> bool:
            seen = row.measured(against)
            return seen is not None and seen.faster

        found.append(paired_mean(f"faster, {name}", *(_shares(of, faster) for of in tasks)))
        fallback = (_geomeans(of, against, fallback=True) for of in tasks)
        found.append(paired_geomean(f"geomean with fallback, {name}", *fallback))
        plain = [_geomeans(of, against, fallback=False) for of in tasks]
        if plain[0].keys() & plain[1].keys():
            found.append(paired_geomean(f"geomean where both are correct, {name}", *plain))
    return found


def paired_mean(
    name: str, first: Mapping[str, float], second: Mapping[str, float], *, seed: int = 0
) -> Paired:
    """Means of both and their difference, resampled over common tasks (percentile bootstrap, Efron 1979).

    Raises UsageError where the runs have no task in common.
    """
    pairs = _pairs(first, second)
    gaps = [b - a for a, b in pairs]
    low, high = _interval(gaps, seed)
    return Paired(
        name=name,
        tasks=len(pairs),
        first=_mean([a for a, _ in pairs]),
        second=_mean([b for _, b in pairs]),
        difference=_mean(gaps),
        low=low,
        high=high,
        significant=low > 0 or high < 0,
    )


def paired_geomean(
    name: str, first: Mapping[str, float], second: Mapping[str, float], *, seed: int = 0
) -> Paired:
    """Geometric means of positive values and their ratio; others raise UsageError, as does no common task."""
    pairs = _pairs(first, second)
    if any(not math.isfinite(v) or v <= 0 for pair in pairs for v in pair):
        raise UsageError("a geometric mean needs positive values", hint="leave out tasks without a speed-up")
    gaps = [math.log(b) - math.log(a) for a, b in pairs]
    low, high = _interval(gaps, seed)
    return Paired(
        name=name,
        tasks=len(pairs),
        first=math.exp(_mean([math.log(a) for a, _ in pairs])),
        second=math.exp(_mean([math.log(b) for _, b in pairs])),
        difference=math.exp(_mean(gaps)),
        low=math.exp(low),
        high=math.exp(high),
        significant=low > 0 or high < 0,
    )


def _by_task(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.task_hash, []).append(row)
    return found


def _shares(tasks: Mapping[str, Sequence[Row]], good: Callable[[Row], bool]) -> dict[str, float]:
    return {key: _mean([float(good(row)) for row in rows]) for key, rows in tasks.items()}


def _geomeans(tasks: Mapping[str, Sequence[Row]], against: Against, *, fallback: bool) -> dict[str, float]:
    found = {}
    for key, rows in tasks.items():
        ratios = [seen.ratio if (seen := row.measured(against)) else None for row in rows]
        logs = [math.log(max(1.0, r or 1.0) if fallback else r) for r in ratios if fallback or r]
        if logs:
            found[key] = math.exp(_mean(logs))
    return found


def _pairs(first: Mapping[str, float], second: Mapping[str, float]) -> list[tuple[float, float]]:
    common = sorted(first.keys() & second.keys())
    if not common:
        raise UsageError("the two runs have no task in common", hint="compare runs over the same tasks")
    return [(first[key], second[key]) for key in common]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _interval(values: Sequence[float], seed: int) -> tuple[float, float]:
    drawn = random.Random(seed)
    return percentile_ends([_mean(drawn.choices(values, k=len(values))) for _ in range(RESAMPLES)])
