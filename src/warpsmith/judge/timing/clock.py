"""From raw brackets to times. Pure functions; no torch."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.types import TimeStats

MIN_BRACKETS = 10
WANTED_BRACKETS = 20
"""However many calls a bracket holds: with fewer, two modes or a drift are found in part of the cases only."""
MAX_BRACKETS = 100
MAX_CALLS = 64
BRACKET_MS = 5.0
"""What a bracket should at least take, so that the clock's own cost and noise are small beside it."""
MEDIUM_MS, MEDIUM_CALLS = 10.0, 3
"""In brackets of one call torch.compile's launch made 6 % of a product of 3 ms that was eager's otherwise (H200)."""
DESCRIBE_MS = 0.3
DESCRIBE_OUTPUT_MS = 0.03
ARM_MS = 2.0
"""Wide, until it is measured on a GPU how long getting ready takes there at most."""
MOVE_MS = 5.0
"""Wide, until it is measured on a GPU what moving 64 MiB of weights in 8 tensors takes there at most."""
LAUNCH_BOUND_FACTOR = 5.0
LAUNCH_BOUND_SHARE = 0.5
RESOLUTION_MS = 1e-4
"""Times are never reported below 0.1 µs: a call that the bracket cannot tell from nothing has no meaningful ratio."""


UNSTEADY_NULL = 0.025
"""Half the null cost's interquartile range over the bracket: what an unsteady null could make of a time."""


@dataclass(frozen=True)
class NullCost:
    """What a bracket costs without its calls, in ms: median and quartiles over null brackets."""

    median_ms: float
    p25_ms: float
    p75_ms: float

    @classmethod
    def of(cls, raw_ms: Sequence[float]) -> "NullCost":
        """The null cost that these null brackets show."""
        return cls(statistics.median(raw_ms), quantile(raw_ms, 0.25), quantile(raw_ms, 0.75))


@dataclass(frozen=True)
class Samples:
    """Brackets of `calls` calls each: raw times, and the runner's own event times where it has them, in ms.

    `null`: the null cost in the same process, where it runs no candidate. `unstable`: why the times cannot be
    believed, in one line; empty where they can.
    """

    calls: int
    raw_ms: tuple[float, ...]
    device_ms: tuple[float, ...] = ()
    null: NullCost | None = None
    unstable: str = ""


def early_ms(arming_ms: float) -> float:
    """What getting ready took beyond what it can honestly take, in ms: the inputs lie there by then.

    It is added to the bracket. Honestly: a change of context (0.2 ms on an H200) and eight short launches.
    """
    return max(0.0, arming_ms - ARM_MS)


def moving_ms(taken_ms: float) -> float:
    """What moving the weights took beyond what it can honestly take, in ms; added to the bracket."""
    return max(0.0, taken_ms - MOVE_MS)


def late_ms(describing_ms: float, outputs: int) -> float:
    """What naming the outputs took beyond what it can honestly take, in ms.

    It is added to the bracket: work put off until after the answer is paid for but for this allowance. Measured on an
    H200: 0.1 ms and up to 0.026 ms an output.
    """
    return max(0.0, describing_ms - (DESCRIBE_MS + DESCRIBE_OUTPUT_MS * outputs))


def calls_per_bracket(call_ms: float) -> int:
    """Calls that make a bracket of BRACKET_MS, 1 to 64; of calls of up to MEDIUM_MS at least 3.

    Only the first call's launch is not hidden behind the GPU's work.
    """
    least = MEDIUM_CALLS if call_ms <= MEDIUM_MS else 1
    return max(least, min(MAX_CALLS, round(BRACKET_MS / max(call_ms, RESOLUTION_MS))))


def brackets_wanted(calls_wanted: int, calls: int, bracket_s: float, budget_s: float) -> int:
    """Brackets to time: enough for `calls_wanted` calls, as far as the budget goes, and always 10 to 100."""
    affordable = int(budget_s / max(bracket_s, budget_s / MAX_BRACKETS))
    wanted = min(MAX_BRACKETS, max(WANTED_BRACKETS, -(-calls_wanted // calls)))
    return max(MIN_BRACKETS, min(wanted, affordable))


def quantile(values: Sequence[float], q: float) -> float:
    """Linear-interpolated quantile, q in [0, 1]."""
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def time_stats(samples: Samples, null_ms: float) -> TimeStats:
    """Times of one call. From each bracket the null cost is taken once; `raw_median_ms` is of whole brackets."""
    net = [max(RESOLUTION_MS, (raw - null_ms) / samples.calls) for raw in samples.raw_ms]
    raw_median = statistics.median(samples.raw_ms)
    device = [ms / samples.calls for ms in samples.device_ms]
    return TimeStats(
        calls=len(net) * samples.calls,
        calls_per_bracket=samples.calls,
        median_ms=statistics.median(net),
        p25_ms=quantile(net, 0.25),
        p75_ms=quantile(net, 0.75),
        p99_ms=quantile(net, 0.99),
        min_ms=min(net),
        raw_median_ms=raw_median,
        null_ms=null_ms,
        null_p25_ms=samples.null.p25_ms if samples.null else None,
        null_p75_ms=samples.null.p75_ms if samples.null else None,
        device_median_ms=statistics.median(device) if device else None,
        launch_bound=raw_median < LAUNCH_BOUND_FACTOR * null_ms,
        samples_ms=tuple(round(v, 6) for v in net),
    )


def with_kernels(stats: TimeStats, kernels_ms: float | None) -> TimeStats:
    """These times beside the `kernels_ms` that an independent profiler summed over a call; None changes nothing."""
    if kernels_ms is None:
        return stats
    launches_ms = max(0.0, stats.median_ms - kernels_ms)
    bound = stats.launch_bound or kernels_ms < LAUNCH_BOUND_SHARE * stats.median_ms
    return stats.model_copy(update={"launches_ms": launches_ms, "launch_bound": bound})


def unsteady_null(stats: TimeStats) -> str:
    """One line where the null cost varies so much that the time does not hold to 2.5 %; else empty."""
    if stats.null_p25_ms is None or stats.null_p75_ms is None:
        return ""
    if (stats.null_p75_ms - stats.null_p25_ms) / 2 <= UNSTEADY_NULL * stats.raw_median_ms:
        return ""
    return (
        f"the null bracket is unsteady: {stats.null_p25_ms:.3g} to {stats.null_p75_ms:.3g} ms (quartiles) "
        f"of brackets of {stats.raw_median_ms:.3g} ms"
    )
