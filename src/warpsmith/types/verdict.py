"""The verdict: one record for one judgement."""

import json
import math
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from warpsmith.types.base import Record
from warpsmith.types.compile import CompileResult
from warpsmith.types.evidence import Evidence
from warpsmith.types.kinds import BaselineKind, Device, Rules, baseline_name
from warpsmith.types.roofline import Roofline

SCHEMA_VERSION = 1

Ratio = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Milliseconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""No zero, negative, infinite or NaN time or ratio is ever a result."""


class Status(StrEnum):
    """The ten outcomes of a judgement. A verdict has exactly one."""

    PASSED = "passed"
    WRONG = "wrong"
    COMPILE_FAILED = "compile_failed"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    CHEATED = "cheated"
    UNSTABLE = "unstable"
    TASK_REFUSED = "task_refused"
    UNSUPPORTED = "unsupported"
    INFRASTRUCTURE = "infrastructure"


class Phase(StrEnum):
    """How far a judgement came."""

    ADMISSION = "admission"
    COMPILE = "compile"
    LOAD = "load"
    CORRECTNESS = "correctness"
    TIMING = "timing"
    BASELINE = "baseline"
    DONE = "done"


class ErrorStats(Record):
    """Largest disagreement with the reference over every checked call."""

    rel: float
    """Relative Frobenius error ‖out − ref‖ / ‖ref‖, the largest over outputs and calls."""
    max_abs: float
    where: str = ""
    """Output path and index of `max_abs`, such as `out[0][3, 17]`."""
    call: int = 0
    mismatched_fraction: float = 0.0


class CheckOutcome(Record):
    """One check of the judge: what it looked for and what it saw."""

    check: str
    passed: bool
    detail: str = ""


class TimeStats(Record):
    """Wall time of one call by the judge's clock. A bracket holds `calls_per_bracket` calls back to back.

    The null bracket's cost `null_ms` is subtracted once a bracket; `raw_median_ms` is the whole bracket's.
    """

    calls: int
    calls_per_bracket: int = 1
    median_ms: Milliseconds
    p25_ms: Milliseconds
    p75_ms: Milliseconds
    p99_ms: Milliseconds | None = None
    min_ms: Milliseconds
    raw_median_ms: float
    null_ms: float
    null_p25_ms: float | None = None
    null_p75_ms: float | None = None
    """Quartiles of the null cost, where it was measured in the same process."""
    device_median_ms: float | None = None
    """Median of the measured process's own CUDA events: informative, never trusted alone."""
    launch_bound: bool = False
    """True where the bracket takes less than five times the null cost, or kernels run for less than half of the time.

    The time is shown, not trusted.
    """
    launches_ms: float | None = None
    """What of a call is not kernels' time: launches, gaps between kernels. None where kernels were not timed."""
    samples_ms: tuple[float, ...] = ()
    """One a bracket."""


class MenuTime(Record):
    """The time of a baseline other than the two in PyTorch's default mode."""

    mode: str
    """`default`, `strict`, `tf32`, `bf16` or `fp16`."""
    kind: BaselineKind
    stats: TimeStats | None = None
    problem: str = ""
    """Why there is no time."""

    @model_validator(mode="after")
    def _told(self) -> "MenuTime":
        if (self.stats is None) != bool(self.problem):
            raise ValueError("a baseline has either a time or the reason why not")
        return self


class InTurn(Record):
    """A ratio that lay near a threshold, measured again: brackets of both sides in turn.

    `low` and `high` hold the ratio in 95 of 100 such measurements (percentile bootstrap).
    """

    mode: str
    kind: BaselineKind
    ratio: Ratio
    low: Ratio
    high: Ratio
    candidate_ms: Milliseconds
    baseline_ms: Milliseconds


class Timings(Record):
    """Candidate and baselines, each in a process of its own under the same protocol."""

    candidate: TimeStats
    eager: TimeStats | None = None
    compile: TimeStats | None = None
    menu: tuple[MenuTime, ...] = ()
    """Further baselines; `eager` and `compile` above are PyTorch's default mode."""
    in_turn: tuple[InTurn, ...] = ()
    """Where there is one, the speed-up over that baseline is its ratio, not that of the times above."""

    def baselines(self) -> Iterator[tuple[str, BaselineKind, TimeStats]]:
        """Every baseline that has a time: its mode, its kind, the time; the default mode's first."""
        if self.eager is not None:
            yield "default", BaselineKind.EAGER, self.eager
        if self.compile is not None:
            yield "default", BaselineKind.COMPILE, self.compile
        for entry in self.menu:
            if entry.stats is not None:
                yield entry.mode, entry.kind, entry.stats


class PaperSpeedup(Record):
    """Baseline time over candidate time, baseline in PyTorch's default mode. None: not measured."""

    eager: Ratio | None = None
    compile: Ratio | None = None


class MatchedSpeedup(Record):
    """Against the fastest baseline of comparable accuracy; the names say which one each ratio is made of."""

    eager: Ratio | None = None
    compile: Ratio | None = None
    best: Ratio | None = None
    eager_baseline: str | None = None
    compile_baseline: str | None = None
    best_baseline: str | None = None


class Speedup(Record):
    """Both speed-ups; `matched` is None where it was not measured."""

    paper: PaperSpeedup
    matched: MatchedSpeedup | None = None


class ModeAccuracy(Record):
    """How accurate PyTorch is in one mode, and whether that mode's baselines compete."""

    mode: str
    errors: dict[str, float] = Field(default_factory=dict)
    """Relative Frobenius error against float64 by distribution; empty where it was not measured."""
    competes: bool
    why: str
    """In one line: the rule that decided."""


class Accuracy(Record):
    """Errors against a float64 run of the task, on the same secret inputs for the candidate and every mode.

    Each is ‖out − oracle‖ / ‖oracle‖, the largest over outputs; inf where an output is not finite and should be.
    """

    oracle: bool
    """False: float64 could not be run, and only `default` and `strict` compete."""
    oracle_problem: str = ""
    eps: float
    """Rounding unit of the output's dtype, the coarsest of several: 4 of them count as exact."""
    candidate: dict[str, float] = Field(default_factory=dict)
    modes: tuple[ModeAccuracy, ...] = ()

    @model_validator(mode="after")
    def _told(self) -> "Accuracy":
        found = [self.candidate, *(m.errors for m in self.modes)]
        if any(math.isnan(e) or e < 0 for errors in found for e in errors.values()):
            raise ValueError("an error is a number of at least 0")
        if self.oracle == bool(self.oracle_problem):
            raise ValueError("an oracle is there, or there is a reason why not")
        if not self.oracle and any(found):
            raise ValueError("without an oracle no error is known")
        if any(m.errors and m.errors.keys() != self.candidate.keys() for m in self.modes):
            raise ValueError("every error is measured on the distributions of the candidate's")
        return self

    def competing(self) -> tuple[str, ...]:
        """The modes whose baselines the candidate is compared with."""
        return tuple(m.mode for m in self.modes if m.competes)


class ByteFloor(Record):
    """The least time that memory traffic allows: bytes of inputs read once and outputs written once."""

    read_bytes: int
    written_bytes: int
    bandwidth_gb_s: float
    floor_ms: float
    share: float | None = None
    """floor_ms over the candidate's median: 1.0 would be the floor itself."""


class Machine(Record):
    """On what a verdict was reached."""

    device: Device
    gpu: str | None = None
    gpu_uuid: str | None = None
    driver: str | None = None
    torch: str | None = None
    cuda: str | None = None
    python: str | None = None
    isolation: str = "none"


class Verdict(Record):
    """One judgement of one submission on one task. Missing fields never count as a win."""

    schema_version: int = SCHEMA_VERSION
    status: Status
    device: Device
    rules: Rules
    task_hash: str
    submission_hash: str
    phase: Phase
    detail: str = ""
    """One line for a person: what was wrong, where, or what was seen."""
    error: ErrorStats | None = None
    paper_gate: bool | None = None
    scale_gate: bool | None = None
    checks: tuple[CheckOutcome, ...] = ()
    timings: Timings | None = None
    speedup: Speedup | None = None
    accuracy: Accuracy | None = None
    """What `speedup.matched` rests on; None where it was not asked for."""
    floor: ByteFloor | None = None
    roofline: Roofline | None = None
    """What the GPU's peaks allow: information, on which nothing rests."""
    evidence: Evidence | None = None
    """What ran in the candidate's calls, as the observer in its process saw it."""
    compile: CompileResult | None = None
    machine: Machine | None = None
    notes: tuple[str, ...] = ()
    seconds: dict[str, float] = Field(default_factory=dict)
    """Where the judgement's own time went, by phase."""

    def canonical_json(self) -> str:
        """As any record's, but that a roofline which is not there leaves no trace: older verdicts keep their hash."""
        absent = {"roofline"} if self.roofline is None else set()
        return json.dumps(self.model_dump(mode="json", exclude=absent), sort_keys=True, separators=(",", ":"))

    @model_validator(mode="after")
    def _complete(self) -> "Verdict":
        if self.status in (Status.PASSED, Status.UNSTABLE):
            # an unstable verdict may earn a reward for being correct
            if self.error is None or self.paper_gate is not True or self.scale_gate is not True:
                raise ValueError(f"a verdict that is {self.status.value} needs an error and both gates")
            if self.phase is not Phase.DONE:
                raise ValueError(f"a verdict that is {self.status.value} must have completed")
        if self.device is Device.SIM and (self.speedup or self.timings):
            raise ValueError("the simulator never reports time")
        if self.speedup is not None:
            self._check_speedup(self.speedup)
        return self

    def _check_speedup(self, speedup: Speedup) -> None:
        """Every ratio needs the times that it is made of: what is missing never counts as a win."""
        if self.status not in (Status.PASSED, Status.UNSTABLE):
            raise ValueError(f"a verdict that is {self.status.value} has no speed-up")
        if self.timings is None:
            raise ValueError("a speed-up needs timings")
        for mode in ("eager", "compile"):
            if getattr(speedup.paper, mode) is not None and getattr(self.timings, mode) is None:
                raise ValueError(f"a speed-up over {mode} needs the time of {mode}")
        if speedup.matched is not None:
            _check_matched(speedup.matched, self.timings)


def _check_matched(matched: MatchedSpeedup, timings: Timings) -> None:
    """The same for the ratios of matched accuracy; one that names its baseline is that baseline's, to six digits."""
    candidate_ms = timings.candidate.median_ms
    ratios = {baseline_name(mode, kind): s.median_ms / candidate_ms for mode, kind, s in timings.baselines()}
    ratios |= {baseline_name(again.mode, again.kind): again.ratio for again in timings.in_turn}
    known = {kind.side for _, kind, _ in timings.baselines()}
    found = {"eager": matched.eager, "compile": matched.compile, "best": matched.best}
    for side, value in found.items():
        name = getattr(matched, f"{side}_baseline")
        if value is None:
            if name is not None:
                raise ValueError(f"a matched baseline {name} without a ratio")
            continue
        if side not in known and (side != "best" or not known):
            raise ValueError(f"a matched speed-up over {side} needs the time of a baseline")
        if name is not None:
            if name not in ratios:
                raise ValueError(f"a matched speed-up over {name} needs the time of {name}")
            if not math.isclose(value, ratios[name], rel_tol=1e-6):
                raise ValueError(f"a matched speed-up over {name} is not made of its time")
    sides = [v for v in (matched.eager, matched.compile) if v is not None]
    if matched.best is not None and (not sides or not math.isclose(matched.best, min(sides), rel_tol=1e-6)):
        raise ValueError("the best matched speed-up is the smaller of the two")
