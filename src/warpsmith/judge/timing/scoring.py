"""What a candidate's time is compared with: which baselines are measured, and the ratios made of them.

`Scoring.measure` takes every baseline's time, `Scoring.again` takes it in turn with the candidate's where a ratio is
near a threshold, and `believed` judges the candidate's own.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warpsmith.errors import (
    CandidateKilledError,
    CandidateTimedOutError,
    InfrastructureError,
    SubmissionError,
)
from warpsmith.gpu.devices import GpuInfo, bandwidth_gb_s
from warpsmith.judge.runner.process import RunnerProcess
from warpsmith.judge.timing.baselines import Baseline, BaselineIdentity, BaselineStore, identity, measured
from warpsmith.judge.timing.clock import Samples, time_stats
from warpsmith.judge.timing.modes import OPTIONAL, PAPER, Entry, competitors, unavailable
from warpsmith.judge.timing.ratio import Interleaved, near_threshold
from warpsmith.judge.timing.stability import baseline_aa
from warpsmith.types import (
    Accuracy,
    ByteFloor,
    CheckOutcome,
    InTurn,
    Machine,
    MatchedSpeedup,
    MenuTime,
    PaperSpeedup,
    Speedup,
    Status,
    TimeStats,
    Timings,
)
from warpsmith.types.protocols import JudgeSettings, Menu

if TYPE_CHECKING:
    from warpsmith.judge.session import Session
    from warpsmith.judge.timing.roofline import Traffic

IMPLAUSIBLE = 0.9
"""A time below this share of what the output's bytes alone take cannot be right."""
BASELINE_TIMEOUT_S = 600.0
"""A baseline that does not answer within this does not run; the first call compiles."""
TOGETHER = 4
"""Processes of baselines that load at the same time; each holds half a gigabyte of the GPU for its context."""
MENU_SHARE = 0.7
"""Of a judgement's time: entries of the menu not begun by then are left to the next, which finds the others done."""
IN_TURN_APART = 0.05
Start = Callable[[str], RunnerProcess]
"""Starts a runner of this name that may see the reference."""


# ---- ratios: pure ---------------------------------------------------------------------------------------------


def matched_speedup(ratios: Mapping[Entry, float]) -> MatchedSpeedup:
    """The smallest of the ratios over all that compete: eager ones, compiled ones, the smaller of both."""
    fields: dict[str, float | str] = {}
    for side in ("eager", "compile", "best"):
        of_side = [e for e in ratios if side in (e.kind.side, "best")]
        if of_side:
            fastest = min(of_side, key=lambda e: ratios[e])
            fields |= {side: ratios[fastest], f"{side}_baseline": fastest.name}
    return MatchedSpeedup.model_validate(fields)


def as_believed(clean_ms: float, found: Interleaved) -> str:
    """Why a measurement in turn does not stand for the ratio; empty where it does.

    The baseline must be no slower than it was alone: a candidate's process that is alive beside it could slow it.
    """
    if found.candidate.unstable:
        return found.candidate.unstable
    in_turn_ms = time_stats(found.baseline, found.null.median_ms).median_ms
    if in_turn_ms / clean_ms - 1 > IN_TURN_APART:
        return f"it took {in_turn_ms:.4g} ms beside the submission, and {clean_ms:.4g} ms alone"
    return ""


def wanted(menu: Menu, accuracy: Accuracy | None, *, prepares: bool) -> tuple[Entry, ...]:
    """The baselines to measure, each once, the published two first."""
    entries = list(PAPER)
    if accuracy is not None:
        entries += competitors(accuracy.competing(), frozen=prepares)
        if menu is Menu.ALL:
            known = [m.mode for m in accuracy.modes if m.competes or m.errors]
            entries += [*competitors(known, frozen=False), *OPTIONAL]
    return tuple(dict.fromkeys(entries))


# ---- measured -------------------------------------------------------------------------------------------------


@dataclass
class _Waiting:
    """An entry that is to be measured, and its process."""

    entry: Entry
    runner: RunnerProcess


class Scoring:
    """The baselines of one judgement. `begun`: time.monotonic() when it began."""

    def __init__(
        self,
        settings: JudgeSettings,
        task_hash: str,
        machine: Machine,
        *,
        store: BaselineStore,
        start: Start,
        begun: float,
    ):
        self.settings, self.machine = settings, machine
        self._task_hash, self._store, self._start, self._begun = task_hash, store, start, begun
        self._known: dict[Entry, Baseline] = {}
        self._waiting: list[_Waiting] = []
        self._unmeasured: list[str] = []
        self._in_turn: dict[Entry, InTurn] = {}
        self._notes: list[str] = []

    def begin(self) -> None:
        """Start the processes of the published baselines that are not known yet: they load while others work."""
        self._waiting = [self._begin(entry) for entry in self._missing(PAPER)]

    def measure(self, session: "Session", accuracy: Accuracy | None) -> None:
        """Find or measure every baseline that the candidate is to be compared with."""
        entries = wanted(self.settings.baselines, accuracy, prepares=session.prepares)
        group, self._waiting = self._waiting, []
        while group or (missing := self._missing(entries)[:TOGETHER]):
            group = group or [self._begin(entry) for entry in missing]
            for waiting in group:
                self._await(waiting.runner)
            for waiting in group:
                self._measure(session, waiting)
            group = []

    def stats(self, entry: Entry) -> TimeStats | None:
        """The time of an entry; None where it has none."""
        found = self._known.get(entry)
        return found.stats if found is not None else None

    def null_ms(self) -> float:
        """The null cost measured with the first baseline that has a time; 0 where none has."""
        return next((b.stats.null_ms for b in self._known.values() if b.stats is not None), 0.0)

    def problems(self) -> tuple[str, ...]:
        """What is to be told of baselines that have no time."""
        failed = [f"baseline {e.name} {b.problem}" for e, b in self._known.items() if b.stats is None]
        left = ", ".join(self._unmeasured)
        told = f"no time was left for the baselines {left}: judge again for them"
        return (*failed, *([told] if left else []), *self._notes)

    def baseline_aa(self) -> CheckOutcome:
        """Whether every baseline that has a time agrees with itself."""
        return baseline_aa(
            {e.name: b.stats.samples_ms for e, b in self._known.items() if b.stats is not None}
        )

    def known(self, session: "Session", accuracy: Accuracy | None) -> bool:
        """Whether every baseline to compare with was measured before, or cannot be."""
        return not self._missing(wanted(self.settings.baselines, accuracy, prepares=session.prepares))

    def close_calls(
        self, candidate: TimeStats, accuracy: Accuracy | None, *, prepares: bool
    ) -> tuple[Entry, ...]:
        """The baselines that the speed-ups are made of and whose ratio is near a threshold."""
        matched = self._matched(candidate, accuracy, prepares)
        names = {matched.eager_baseline, matched.compile_baseline} if matched else set()
        deciding = [e for e in self._known if self.stats(e) is not None and (e in PAPER or e.name in names)]
        return tuple(e for e in deciding if near_threshold(self._ratio(e, candidate)))

    def again(self, session: "Session", candidate: RunnerProcess, entry: Entry) -> None:
        """Measure a baseline in turn with the candidate. Raises what the candidate's brackets raise."""
        if time.monotonic() - self._begun > MENU_SHARE * self.settings.timeout_s:
            self._notes.append(f"no time was left to measure in turn with {entry.name}")
            return
        runner = self._begin(entry).runner
        try:
            self._await(runner)
            found = session.interleaved(candidate, runner, entry, BASELINE_TIMEOUT_S)
        except SubmissionError as error:
            if session.timer.failed is candidate:
                raise
            self._notes.append(f"{entry.name} could not be measured in turn: {error}")
            return
        finally:
            runner.close()
        if doubt := as_believed(self.stats(entry).median_ms, found):
            self._notes.append(f"the measurement of {entry.name} in turn is not used: {doubt}")
            return
        interval = found.interval()
        times = [time_stats(s, found.null.median_ms).median_ms for s in (found.candidate, found.baseline)]
        self._in_turn[entry] = InTurn(
            mode=entry.mode.name, kind=entry.kind, ratio=interval.ratio, low=interval.low, high=interval.high,
            candidate_ms=times[0], baseline_ms=times[1],
        )  # fmt: skip

    def _ratio(self, entry: Entry, candidate: TimeStats) -> float | None:
        """Baseline time over candidate time, in turn where that was measured; None where there is no time."""
        stats = self.stats(entry)
        if entry in self._in_turn:
            return self._in_turn[entry].ratio
        return stats.median_ms / candidate.median_ms if stats is not None else None

    def ratios(self, candidate: TimeStats, accuracy: Accuracy | None, *, prepares: bool) -> dict[str, object]:
        """The verdict's `timings` and `speedup`."""
        eager, compiled = (self.stats(entry) for entry in PAPER)
        over_eager, over_compile = (self._ratio(entry, candidate) for entry in PAPER)
        paper = PaperSpeedup(eager=over_eager, compile=over_compile)
        menu = tuple(
            MenuTime(mode=e.mode.name, kind=e.kind, stats=b.stats, problem=b.problem)
            for e, b in self._known.items()
            if e not in PAPER
        )
        return {
            "timings": Timings(
                candidate=candidate,
                eager=eager,
                compile=compiled,
                menu=menu,
                in_turn=tuple(self._in_turn.values()),
            ),
            "speedup": Speedup(paper=paper, matched=self._matched(candidate, accuracy, prepares)),
        }

    def _matched(
        self, candidate: TimeStats, accuracy: Accuracy | None, prepares: bool
    ) -> MatchedSpeedup | None:
        """None where it was not asked for, and where a competing baseline has not been tried yet."""
        if accuracy is None:
            return None
        entries = competitors(accuracy.competing(), frozen=prepares)
        if any(entry not in self._known for entry in entries):
            return None
        ratios = {e: r for e in entries if (r := self._ratio(e, candidate)) is not None}
        return matched_speedup(ratios) if ratios else None

    # ---- steps ------------------------------------------------------------------------------------------------

    def _missing(self, entries: Iterable[Entry]) -> list[Entry]:
        """Those still to be tried; what the store holds, and what cannot run here, is known afterwards."""
        for entry in entries:
            if entry in self._known:
                continue
            if reason := unavailable(entry):
                self._known[entry] = measured(self._identity(entry), None, f"was skipped: {reason}")
            elif (found := self._store.get(self._identity(entry))) is not None:
                self._known[entry] = found
        return [e for e in entries if e not in self._known and e.name not in self._unmeasured]

    def _identity(self, entry: Entry) -> BaselineIdentity:
        return identity(self._task_hash, entry.mode.name, entry.kind, self.machine)

    def _begin(self, entry: Entry) -> _Waiting:
        return _Waiting(entry, self._start(f"the {entry.name} baseline"))

    @staticmethod
    def _await(runner: RunnerProcess) -> None:
        """Wait until it has loaded its libraries: what loads beside a measurement disturbs it."""
        try:
            runner.await_ready()
        except InfrastructureError:
            return  # told when it is asked to load

    def _measure(self, session: "Session", waiting: _Waiting) -> None:
        entry, runner = waiting.entry, waiting.runner
        left_s = MENU_SHARE * self.settings.timeout_s - (time.monotonic() - self._begun)
        try:
            if entry not in PAPER and left_s <= 0:
                self._unmeasured.append(entry.name)
                return
            timeout_s = BASELINE_TIMEOUT_S if entry in PAPER else min(BASELINE_TIMEOUT_S, left_s)
            samples, null_ms = session.baseline(runner, entry, timeout_s)
            found = measured(self._identity(entry), time_stats(samples, null_ms))
            if samples.unstable:
                # Good enough to show, not to keep: the next judgement measures it again.
                self._known[entry] = found
                self._notes.append(f"baseline {entry.name} is unstable: {samples.unstable}")
                return
        except CandidateTimedOutError as error:
            if timeout_s < BASELINE_TIMEOUT_S:
                self._unmeasured.append(entry.name)
                return
            found = measured(self._identity(entry), None, f"timed out: {error}")
        except (CandidateKilledError, InfrastructureError) as error:
            # by no doing of its own: the next judgement tries again
            self._known[entry] = measured(self._identity(entry), None, f"failed: {error}")
            return
        except SubmissionError as error:
            found = measured(self._identity(entry), None, f"failed: {error}")
        finally:
            runner.close()
        self._store.put(found)
        self._known[entry] = found


def believed(candidate: TimeStats, timed: Samples, floor: ByteFloor | None) -> tuple[Status, str] | None:
    """The status and detail of a correct candidate whose time cannot be believed; None where it can."""
    if timed.unstable:
        return Status.UNSTABLE, timed.unstable
    if floor is not None and candidate.median_ms < IMPLAUSIBLE * _written_ms(floor):
        detail = f"{candidate.median_ms:.4g} ms is less than writing the output takes: not believed"
        return Status.UNSTABLE, detail
    return None


def byte_floor(traffic: "Traffic", candidate: TimeStats, gpu: GpuInfo) -> ByteFloor | None:
    """The floor of the task's traffic on this GPU, None where its bandwidth is not known."""
    bandwidth = bandwidth_gb_s(gpu.name)
    if bandwidth is None:
        return None
    floor_ms = (traffic.read_bytes + traffic.written_bytes) / bandwidth / 1e6
    return ByteFloor(
        read_bytes=traffic.read_bytes, written_bytes=traffic.written_bytes, bandwidth_gb_s=bandwidth,
        floor_ms=floor_ms, share=floor_ms / candidate.median_ms,
    )  # fmt: skip


def _written_ms(floor: ByteFloor) -> float:
    """Least time in ms to write the output; what the L2 cache can still hold is left out."""
    import torch

    cached = torch.cuda.get_device_properties(0).L2_cache_size
    return max(0, floor.written_bytes - cached) / floor.bandwidth_gb_s / 1e6
