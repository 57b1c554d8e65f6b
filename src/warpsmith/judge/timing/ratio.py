"""The ratio of two measurements, and when it is too close to call. Pure functions; no torch."""

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.judge.timing.clock import NullCost, Samples, quantile, time_stats
from warpsmith.reward.milestone import MARGIN

NEAR = 0.1
THRESHOLDS = (1.0, MARGIN)
RESAMPLES = 1000
COVERAGE = 0.95


@dataclass(frozen=True)
class RatioInterval:
    """Baseline time over candidate time, and what brackets drawn anew would have given in 95 of 100 cases."""

    ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class Interleaved:
    """Brackets of candidate and baseline taken in turn, each pair under the same conditions."""

    candidate: Samples
    baseline: Samples
    null: NullCost

    def interval(self) -> RatioInterval:
        """Their ratio by `bootstrap`, the null cost taken from every bracket."""
        net = [time_stats(s, self.null.median_ms).samples_ms for s in (self.candidate, self.baseline)]
        return bootstrap(*net)


def near_threshold(ratio: float) -> bool:
    """True within 10 % of a ratio at which something is decided: 1 and the reward's margin."""
    return any(abs(ratio / threshold - 1) <= NEAR for threshold in THRESHOLDS)


def bootstrap(candidate_ms: Sequence[float], baseline_ms: Sequence[float]) -> RatioInterval:
    """The ratio of the medians, baseline over candidate, with its interval; always the same for the same times.

    Percentile bootstrap (Efron, 1979). Where both have equally many brackets these are drawn in pairs, so that what
    changed for both at once cancels. Raises ValueError where there are none, or one is not positive.
    """
    if not candidate_ms or not baseline_ms or min(*candidate_ms, *baseline_ms) <= 0:
        raise ValueError("a ratio needs positive times of both")
    source = random.Random(0)
    paired = len(candidate_ms) == len(baseline_ms)
    found = []
    for _ in range(RESAMPLES):
        mine = source.choices(range(len(candidate_ms)), k=len(candidate_ms))
        theirs = mine if paired else source.choices(range(len(baseline_ms)), k=len(baseline_ms))
        found.append(_ratio([candidate_ms[i] for i in mine], [baseline_ms[i] for i in theirs]))
    tail = (1 - COVERAGE) / 2
    return RatioInterval(_ratio(candidate_ms, baseline_ms), quantile(found, tail), quantile(found, 1 - tail))


def _ratio(candidate_ms: Sequence[float], baseline_ms: Sequence[float]) -> float:
    return statistics.median(baseline_ms) / statistics.median(candidate_ms)
