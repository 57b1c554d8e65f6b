"""Timed brackets: one runner's, measured again where its times cannot be believed, or two runners' in turn.

What happens between two brackets is the same for every runner, submission or baseline, because a short call's time
depends on it: docs/design/clock.md names what was found to matter.
"""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from warpsmith.gpu.probe import GpuProbe, GpuState, disturbance, unread
from warpsmith.judge.evidence.gather import Gathered
from warpsmith.judge.runner.process import RunnerProcess
from warpsmith.judge.timing.bracket import Bench, Bracket
from warpsmith.judge.timing.clock import NullCost, Samples, brackets_wanted
from warpsmith.judge.timing.ratio import Interleaved
from warpsmith.judge.timing.stability import assess

WARMUP_BRACKETS = 2
WARMUP_S = 0.25
MOST_WARMUPS = 8
"""Short calls are slow in their first brackets: at least two are not timed, and more while they take no time."""
NULL_BRACKETS = 20
NULL_BUDGET_S = 2.0
"""For null brackets, and never for fewer than five."""
SHORT_S = 4.0
SHORT_ATTEMPTS = 4
"""Calls of some µs are as unsteady as the processor's clock: up to four more attempts, not one, within SHORT_S."""
Keep = Callable[[Bracket], object]
"""Is given every bracket, timed or not; may raise for what it shows."""


@dataclass(frozen=True)
class Timed:
    """A runner, how long it may take to answer, who judges its brackets, and who is told what ran in them."""

    runner: RunnerProcess
    timeout_s: float
    keep: Keep
    watch: Gathered | None = None
    moving: bool = False
    """Whether its weights change between brackets."""


class Timer:
    """Times runners on one bench: `calls_wanted` calls as far as `budget_s` seconds go, 10 to 100 brackets.

    `probe`: read before and after, outside brackets.
    """

    def __init__(self, bench: Bench, *, calls_wanted: int, budget_s: float, probe: GpuProbe | None = None):
        self.bench, self._calls_wanted, self._budget_s, self._probe = bench, calls_wanted, budget_s, probe
        self.failed: RunnerProcess | None = None
        """Whose bracket raised."""

    def measure(self, timed: Timed, *, nulls: bool = False) -> Samples:
        """Brackets of one runner; with `nulls` also the null cost, which no candidate is asked for.

        What cannot be believed is measured once more, and where that takes little time up to four times more.
        Raises what RunnerProcess, the verifier and `keep` raise.
        """
        with _without_gc():
            calls = self._choose(timed)
            before: list[str] = []
            since = time.monotonic()
            found = self._attempt(timed, calls)
            while found.unstable and len(before) < _attempts_left(time.monotonic() - since):
                before.append(found.unstable)
                found = self._attempt(timed, calls)
            found = replace(found, unstable=_again(found.unstable, before))
            return replace(found, null=self._null(timed, calls)) if nulls else found

    def interleave(self, candidate: Timed, baseline: Timed) -> Interleaved:
        """Brackets of both in turn, candidate first, with the same number of calls; and the baseline's null cost.

        Judged by the ratios of neighbours, in which what changes for both cancels; measured once more where these
        cannot be believed. Raises as `measure` does.
        """
        with _without_gc():
            calls = self._choose(candidate)
            pairs, unstable = self._in_turn((candidate, baseline), calls)
            if unstable:
                before = unstable
                pairs, unstable = self._in_turn((candidate, baseline), calls)
                unstable = _again(unstable, [before])
            null = self._null(baseline, calls)
        mine, theirs = (_samples(calls, [pair[i] for pair in pairs]) for i in (0, 1))
        return Interleaved(
            replace(mine, unstable=unstable), replace(theirs, unstable=unstable, null=null), null
        )

    def _in_turn(self, pair: tuple[Timed, Timed], calls: int) -> tuple[list[list[Bracket]], str]:
        each_s = sum(self._warm(timed, calls) for timed in pair)
        wanted = brackets_wanted(self._calls_wanted, calls, each_s, self._budget_s)
        before = self._read()
        found = [self._pair(pair, calls) for _ in range(1 + wanted)][1:]
        ratios = [theirs.raw_ms / mine.raw_ms for mine, theirs in found]
        return found, self._unstable(before, ratios)

    def _pair(self, pair: tuple[Timed, Timed], calls: int) -> list[Bracket]:
        """A bracket of each; the other's processes stand still, so that none can slow what it is compared with."""
        found = []
        for timed, other in (pair, pair[::-1]):
            other.runner.pause()
            try:
                found.append(self._run(timed, calls))
            finally:
                other.runner.resume()
        return found

    def notes(self) -> tuple[str, ...]:
        """What of the GPU could not be watched while something was timed on it."""
        missing = unread(self._probe.read() if self._probe else GpuState()) if self.bench.cuda else ()
        return (
            (f"not watched while timing, because NVML does not tell: {', '.join(missing)}",)
            if missing
            else ()
        )

    def _attempt(self, timed: Timed, calls: int) -> Samples:
        each_s = self._warm(timed, calls)
        wanted = brackets_wanted(self._calls_wanted, calls, each_s, self._budget_s)
        before = self._read()
        # The first after a reading comes after another pause than the rest.
        samples = _samples(calls, [self._run(timed, calls) for _ in range(1 + wanted)][1:])
        return replace(samples, unstable=self._unstable(before, samples.raw_ms))

    def _choose(self, timed: Timed) -> int:
        self.bench.watch, self.bench.moving = timed.watch, timed.moving
        self.failed = timed.runner
        calls, brackets = self.bench.choose_calls(timed.runner, timed.timeout_s)
        for bracket in brackets:
            timed.keep(bracket)
        self.failed = None
        return calls

    def _warm(self, timed: Timed, calls: int) -> float:
        """Untimed brackets; seconds that the last one took, all around it included."""
        begun = since = time.monotonic()
        for done in range(MOST_WARMUPS):
            if done >= WARMUP_BRACKETS and since - begun > WARMUP_S:
                break
            last, _ = since, self._run(timed, calls)
            since = time.monotonic()
        return since - last

    def _null(self, timed: Timed, calls: int) -> NullCost:
        """Each null bracket follows a real one, as a real one does."""
        raw_ms: list[float] = []
        begun = time.monotonic()
        while len(raw_ms) < 5 or (len(raw_ms) < NULL_BRACKETS and time.monotonic() - begun < NULL_BUDGET_S):
            self._run(timed, calls)
            raw_ms.append(self.bench.null(timed.runner, timed.timeout_s, calls))
        return NullCost.of(raw_ms)

    def _run(self, timed: Timed, calls: int) -> Bracket:
        self.bench.watch, self.bench.moving = timed.watch, timed.moving
        self.failed = timed.runner
        bracket = self.bench.run(timed.runner, timed.timeout_s, calls=calls, sparing=True)
        timed.keep(bracket)
        self.failed = None
        return bracket

    def _read(self) -> GpuState | None:
        return self._probe.read() if self._probe else None

    def _unstable(self, before: GpuState | None, values: Sequence[float]) -> str:
        """Why these times, or ratios, cannot be believed: what came between two readings, and what they look like."""
        disturbed = disturbance(before, self._probe.read()) if self._probe and before else ""
        found = assess(values)
        told = "" if found.stable else f"{found.kind.value}: {found.reason}"
        return "; ".join(filter(None, (disturbed, told)))


def _attempts_left(taken_s: float) -> int:
    return SHORT_ATTEMPTS if taken_s < SHORT_S else 1


def _again(last: str, before: list[str]) -> str:
    """Why the last of several measurements cannot be believed; empty where it can, or was the first."""
    if not last or not before:
        return last
    times = "twice" if len(before) == 1 else f"{len(before) + 1} times"
    reasons = "; ".join(dict.fromkeys(before))
    return f"{last} (measured {times}; before: {reasons})"


def _samples(calls: int, brackets: list[Bracket]) -> Samples:
    device_ms = tuple(b.device_ms for b in brackets if b.device_ms is not None)
    return Samples(calls, tuple(b.raw_ms for b in brackets), device_ms)


@contextmanager
def _without_gc() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
