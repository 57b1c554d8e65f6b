"""The verdict: one record for one judgement."""

from enum import StrEnum

from pydantic import Field, model_validator

from warpsmith.types.base import Device, Record, Rules
from warpsmith.types.compile import CompileResult

SCHEMA_VERSION = 1


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
    median_ms: float
    p25_ms: float
    p75_ms: float
    min_ms: float
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
    """Baseline time over candidate time, baseline in PyTorch's default mode."""

    eager: float | None = None
    compile: float | None = None


class MatchedSpeedup(Record):
    """Against the fastest baseline of comparable accuracy."""

    eager: float | None = None
    compile: float | None = None
    best: float | None = None


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
        if self.status is Status.PASSED:
            if self.error is None or self.paper_gate is not True or self.scale_gate is not True:
                raise ValueError("a passed verdict needs an error and both gates")
            if self.phase is not Phase.DONE:
                raise ValueError("a passed verdict must have completed")
        if self.device is Device.SIM and (self.speedup or self.timings):
            raise ValueError("the simulator never reports time")
        return self
