"""Two runs over the same tasks: paired differences with bootstrap intervals over tasks. Imports no torch."""

import math
import random
from collections.abc import Mapping, Sequence

from warpsmith.errors import UsageError
from warpsmith.types import Record

RESAMPLES = 2000


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


def _pairs(first: Mapping[str, float], second: Mapping[str, float]) -> list[tuple[float, float]]:
    common = sorted(first.keys() & second.keys())
    if not common:
        raise UsageError("the two runs have no task in common", hint="compare runs over the same tasks")
    return [(first[key], second[key]) for key in common]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _interval(values: Sequence[float], seed: int) -> tuple[float, float]:
    drawn = random.Random(seed)
    means = sorted(_mean(drawn.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES) - 1]
