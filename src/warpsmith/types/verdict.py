"""The verdict: one record for one judgement."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from warpsmith.types.base import Device, Record, Rules
from warpsmith.types.compile import CompileResult

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
    min_ms: Milliseconds
    raw_median_ms: float
    null_ms: float
    device_median_ms: float | None = None
    """Median of the measured process's own CUDA events: informative, never trusted alone."""
    launch_bound: bool = False
    """True where the bracket takes less than five times the null cost: the time is shown, not trusted."""
    samples_ms: tuple[float, ...] = ()
    """One a bracket."""


class Timings(Record):
    """Candidate and baselines, each in a process of its own under the same protocol."""

    candidate: TimeStats
    eager: TimeStats | None = None
    compile: TimeStats | None = None


class PaperSpeedup(Record):
    """Baseline time over candidate time, baseline in PyTorch's default mode. None: not measured."""

    eager: Ratio | None = None
    compile: Ratio | None = None


class MatchedSpeedup(Record):
    """Against the fastest baseline of comparable accuracy."""

    eager: Ratio | None = None
    compile: Ratio | None = None
    best: Ratio | None = None


class Speedup(Record):
    """Both speed-ups; `matched` is None where it was not measured."""

    paper: PaperSpeedup
    matched: MatchedSpeedup | None = None


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
    floor: ByteFloor | None = None
    compile: CompileResult | None = None
    machine: Machine | None = None
    notes: tuple[str, ...] = ()
    seconds: dict[str, float] = Field(default_factory=dict)
    """Where the judgement's own time went, by phase."""

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
