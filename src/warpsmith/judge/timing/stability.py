"""Do the brackets of one measurement tell one time? Pure functions; no torch.

All statistics are of log times, so that they do not depend on the unit, and robust, so that one bracket decides
nothing. docs/design/clock.md says how the thresholds were chosen, and what they miss.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from warpsmith.reward.milestone import BASELINE_AA_CHECK
from warpsmith.types import CheckOutcome

MIN_SAMPLES = 5
FLOOR = 0.0025
"""Spreads are never taken for smaller than this share: below it the clock's own steps are seen."""

MODE_APART = 0.06
"""Two modes are told apart from this relative distance on."""
MODE_SHARE = 0.15
MODE_SEPARATION = 3.3
MODE_SEPARATION_FEW = 17.0
"""The modes' distance over the wider one's standard deviation, for n brackets 3.3 + 17 / n at least: the halves of
one normal distribution have 2.6, and more by chance where they are few."""
OUTLIER = 0.15
OUTLIER_SHARE = 0.1
"""Brackets this far from the median, if they are this few, belong to no mode."""

DRIFT = 0.035
"""Change over the whole run, by the median of all pairwise slopes (Theil and Sen)."""
DRIFT_Z = 2.6
"""Mann and Kendall's statistic: 1 % of runs without a trend reach it, and few of those change by as much."""

FAR = 0.25
"""A bracket this far from the median was disturbed."""
FAR_SHARE = 0.2
FAR_COUNT = 3

MEDIAN_ERROR = 0.05
"""Largest standard error of the median: beyond it a ratio is not known to 10 %."""

HALVES_APART = 0.025
"""Half of the reward's margin: how far the two halves of a baseline's brackets may lie apart."""


class Steadiness(StrEnum):
    """What the brackets of one measurement look like."""

    STABLE = "stable"
    BIMODAL = "bimodal"
    DRIFTING = "drifting"
    DISTURBED = "disturbed"
    NOISY = "noisy"


@dataclass(frozen=True)
class Assessment:
    """What a measurement's brackets look like, and why, in one line."""

    kind: Steadiness
    reason: str = ""

    @property
    def stable(self) -> bool:
        """True where the median can be believed."""
        return self.kind is Steadiness.STABLE


def assess(samples_ms: Sequence[float]) -> Assessment:
    """Judges brackets in the order in which they were taken, 10 to 100 of them; the order matters for drift alone.

    Raises ValueError for fewer than 5 and for times that are not positive and finite.
    """
    if len(samples_ms) < MIN_SAMPLES or not all(0 < v < math.inf for v in samples_ms):
        raise ValueError(f"stability is told from {MIN_SAMPLES} positive times or more")
    logs = [math.log(v) for v in samples_ms]
    for look in (_drifting, _bimodal, _disturbed, _noisy):
        found = look(logs)
        if found is not None:
            return found
    return Assessment(Steadiness.STABLE)


def halves_ratio(samples_ms: Sequence[float]) -> float:
    """Median of the second half of the brackets over that of the first."""
    middle = len(samples_ms) // 2
    return statistics.median(samples_ms[middle:]) / statistics.median(samples_ms[:middle])


def agrees_with_itself(samples_ms: Sequence[float]) -> Assessment:
    """The A/A test: the brackets as two measurements, the first half and the second, by the same rules.

    Where the halves' medians lie further apart than 2.5 % and than three standard errors of their difference, or the
    whole is not stable, a ratio to this measurement means nothing.
    """
    whole = assess(samples_ms)
    if not whole.stable:
        return whole
    logs = [math.log(v) for v in samples_ms]
    apart = abs(math.log(halves_ratio(samples_ms)))
    # Each half has half of the brackets: its error is √2 times the whole's, the difference's √2 times that.
    allowed = max(HALVES_APART, 3 * 2 * _median_error(logs))
    if apart > allowed:
        return Assessment(
            Steadiness.DRIFTING, f"its two halves differ by {_percent(apart)}, {_percent(allowed)} is allowed"
        )
    return Assessment(Steadiness.STABLE, f"its two halves differ by {_percent(apart)}")


def baseline_aa(baselines: Mapping[str, Sequence[float]]) -> CheckOutcome:
    """The check BASELINE_AA_CHECK: every baseline agrees with itself. It fails where there is none.

    `baselines`: the brackets of each mode in ms, in order, such as `TimeStats.samples_ms`.
    """
    told = {mode: agrees_with_itself(samples) for mode, samples in baselines.items()}
    said = [f"{mode} is {a.kind.value}: {a.reason}" for mode, a in told.items()]
    return CheckOutcome(
        check=BASELINE_AA_CHECK,
        passed=bool(told) and all(a.stable for a in told.values()),
        detail="; ".join(said) or "no baseline was measured",
    )


def _drifting(logs: list[float]) -> Assessment | None:
    """A trend that is both large and beyond chance."""
    n = len(logs)
    rising = falling = 0
    slopes = []
    for i in range(n):
        for j in range(i + 1, n):
            step = logs[j] - logs[i]
            rising += step > 0
            falling += step < 0
            slopes.append(step / (j - i))
    change = statistics.median(slopes) * (n - 1)
    if abs(change) < DRIFT:
        return None
    score = abs(rising - falling) - 1
    variance = n * (n - 1) * (2 * n + 5) / 18
    if score / math.sqrt(variance) < DRIFT_Z:
        return None
    return Assessment(Steadiness.DRIFTING, f"times change by {_percent(change, sign=True)} over the run")


def _bimodal(logs: list[float]) -> Assessment | None:
    """The best cut into a fast and a slow group, if both are tight and large enough."""
    ordered = sorted(_without_outliers(logs))
    n = len(ordered)
    least = max(2, math.ceil(MODE_SHARE * n))
    separation, cut, apart = 0.0, 0, 0.0
    for i in range(least, n - least + 1):
        (fast, fast_spread), (slow, slow_spread) = _moments(ordered[:i]), _moments(ordered[i:])
        found = (slow - fast) / max(FLOOR, fast_spread, slow_spread)
        if slow - fast >= MODE_APART and found > separation:
            separation, cut, apart = found, i, slow - fast
    if separation < MODE_SEPARATION + MODE_SEPARATION_FEW / n:
        return None
    return Assessment(
        Steadiness.BIMODAL, f"{n - cut} of {n} brackets are {_percent(apart)} slower than the others"
    )


def _without_outliers(logs: list[float]) -> list[float]:
    middle = statistics.median(logs)
    kept = [v for v in logs if abs(v - middle) <= math.log1p(OUTLIER)]
    return kept if len(logs) - len(kept) <= OUTLIER_SHARE * len(logs) else logs


def _disturbed(logs: list[float]) -> Assessment | None:
    """Several brackets far from all others, without a time of their own."""
    middle = statistics.median(logs)
    far = sum(abs(v - middle) > math.log1p(FAR) for v in logs)
    if far < max(FAR_COUNT, math.ceil(FAR_SHARE * len(logs))):
        return None
    # Where half of all brackets scatter that far, it is noise, not a disturbance.
    if 1.4826 * _deviation(logs) > FAR / 2:
        return None
    return Assessment(
        Steadiness.DISTURBED,
        f"{far} of {len(logs)} brackets lie more than {100 * FAR:.0f} % from the median",
    )


def _noisy(logs: list[float]) -> Assessment | None:
    error = _median_error(logs)
    if error <= MEDIAN_ERROR:
        return None
    return Assessment(Steadiness.NOISY, f"the median's standard error is {_percent(error)}")


def _median_error(logs: list[float]) -> float:
    """Relative standard error of the median, by the median deviation: √(π/2) · 1.4826 · MAD / √n."""
    return math.sqrt(math.pi / 2) * 1.4826 * _deviation(logs) / math.sqrt(len(logs))


def _deviation(logs: list[float]) -> float:
    middle = statistics.median(logs)
    return statistics.median(abs(v - middle) for v in logs)


def _moments(values: list[float]) -> tuple[float, float]:
    """Mean and sample standard deviation."""
    mean = sum(values) / len(values)
    return mean, math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))


def _percent(logarithm: float, *, sign: bool = False) -> str:
    return f"{100 * math.expm1(logarithm):{'+' if sign else ''}.1f} %"
