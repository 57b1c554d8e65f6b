"""Percentile bootstrap over tasks (Efron, 1979): tasks are drawn, each with all of its samples. Imports no torch."""

import math
import random
from collections.abc import Mapping, Sequence

from warpsmith.types import Record

RESAMPLES = 2000
COVERAGE = 0.95


class Estimate(Record):
    """A figure, and where 95 of 100 task sets drawn like this one would have put it; None: not worked out."""

    value: float
    low: float | None = None
    high: float | None = None

    def mapped(self, function) -> "Estimate":
        """The same through a function that only ever rises, such as `exp`."""
        ends = [None if end is None else function(end) for end in (self.low, self.high)]
        return Estimate(value=function(self.value), low=ends[0], high=ends[1])


Part = tuple[float, float]
"""What one task gives to a ratio of sums: its numerator, and its weight (0: nothing)."""


def means(
    parts: Mapping[str, Sequence[Part]], *, seed: int = 0, resamples: int = RESAMPLES
) -> dict[str, Estimate | None]:
    """Weighted means over tasks, all resampled by the same draws; None where no task has weight.

    Every sequence holds one part a task, in one order. 0 `resamples` gives no intervals.
    """
    values = {name: _mean(of, range(len(of))) for name, of in parts.items()}
    wanted = [name for name, value in values.items() if value is not None]
    drawn: dict[str, list[float]] = {name: [] for name in wanted}
    source, count = random.Random(seed), max((len(of) for of in parts.values()), default=0)
    for _ in range(resamples if wanted else 0):
        chosen = source.choices(range(count), k=count)
        for name in wanted:
            value = _mean(parts[name], chosen)
            if value is not None:
                drawn[name].append(value)
    return {name: None if value is None else _estimate(value, drawn[name]) for name, value in values.items()}


def percentile_ends(values: Sequence[float]) -> tuple[float, float]:
    """The ends that leave out 2.5 % on either side."""
    ordered, tail = sorted(values), (1 - COVERAGE) / 2
    return ordered[int(tail * len(ordered))], ordered[max(0, math.ceil((1 - tail) * len(ordered)) - 1)]


def _estimate(value: float, drawn: Sequence[float]) -> Estimate:
    if not drawn:
        return Estimate(value=value)
    low, high = percentile_ends(drawn)
    return Estimate(value=value, low=low, high=high)


def _mean(parts: Sequence[Part], chosen: Sequence[int]) -> float | None:
    weight = sum([parts[i][1] for i in chosen])
    return sum([parts[i][0] for i in chosen]) / weight if weight else None
