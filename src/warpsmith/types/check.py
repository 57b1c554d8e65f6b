"""The record of a task's check: is it fit to be rewarded, and can anything be gained."""

from enum import StrEnum

from pydantic import model_validator

from warpsmith.types.base import Record, sha256_hex
from warpsmith.types.kinds import Device
from warpsmith.types.task import Task, TaskSource
from warpsmith.types.verdict import Machine

CHECK_VERSION = 1
"""Raised whenever the checks change, so that rows of older checks answer nothing."""


class Purpose(StrEnum):
    """What a task is wanted for. `training` (and synthesis) refuses what `benchmark` scores and flags."""

    BENCHMARK = "benchmark"
    TRAINING = "training"


class Fitness(StrEnum):
    """The outcome of a check."""

    FIT = "fit"
    UNFIT = "unfit"
    UNSUPPORTED = "unsupported"
    """The task may be fine, but this device cannot run it."""
    INFRASTRUCTURE = "infrastructure"


class Weakness(StrEnum):
    """What a check can find against a task, as code tells it apart; its text is among the problems or flags."""

    RAISES = "raises"
    NOT_JUDGEABLE = "not_judgeable"
    NOT_FINITE = "not_finite"
    ZERO_OUTPUT = "zero_output"
    ZEROS_PASS = "zeros_pass"
    COPY_PASSES = "copy_passes"
    RANDOM = "random"
    DRAWS_STATE = "draws_state"
    UNWRITTEN_MEMORY = "unwritten_memory"
    CONSTANT_OUTPUT = "constant_output"
    INDISTINGUISHABLE = "indistinguishable"
    IDLE_INPUT = "idle_input"
    IDLE_PARAMETER = "idle_parameter"
    ROUNDING_NOISE = "rounding_noise"
    OUTSIDE_TIME = "outside_time"
    NO_COMPILE = "no_compile"


class CheckSettings(Record):
    """What a check is asked to do."""

    device: Device
    purpose: Purpose = Purpose.BENCHMARK
    compile: bool = True
    """On cuda, also try torch.compile; never on `sim`."""
    version: int = CHECK_VERSION

    def question(self, task: Task) -> str:
        """The same question has the same hash, whichever process asks it."""
        return sha256_hex(f"{task.content_hash} {self.content_hash}")


class TaskEstimate(Record):
    """Rough figures from a few plain calls: never the judge's measurements, and never compared with them.

    Bytes are of one set of inputs, of parameters and buffers, and of the outputs, each byte of memory once.
    """

    input_bytes: int
    weight_bytes: int
    output_bytes: int
    peak_bytes: int | None = None
    """Largest memory allocated while forward ran, all of the above included; cuda only."""
    full_size_elements: int | None = None
    """Where a smaller task was checked: elements of the full-size task's inputs, parameters and outputs."""
    eager_ms: float | None = None
    compile_ms: float | None = None
    floor_ms: float | None = None
    """Least time for the outputs and the inputs and weights that matter, at the datasheet's bandwidth."""
    headroom: float | None = None
    """The faster of the two estimates over `floor_ms`: an upper bound on what may be gained by moving less."""


class TaskCheck(Record):
    """One check of one task."""

    schema_version: int = 1
    question: str
    """`CheckSettings.question` of what was asked."""
    task_name: str
    task_hash: str
    source: TaskSource
    revision: str | None = None
    level: int | None = None
    problem_id: int | None = None
    device: Device
    purpose: Purpose
    fitness: Fitness
    problems: tuple[str, ...] = ()
    """Why it is refused."""
    flags: tuple[str, ...] = ()
    """What weakens it; said beside its results."""
    weaknesses: tuple[Weakness, ...] = ()
    """The kinds of what is said in `problems` and `flags`, each once."""
    notes: tuple[str, ...] = ()
    """What was not examined, and why it is unsupported or could not be checked."""
    checked_hash: str | None = None
    """`task_hash` of the smaller task that was checked in its place, on `sim`."""
    parameters: int = 0
    parameters_examined: int = 0
    """Of how many it is known whether they matter."""
    estimate: TaskEstimate | None = None
    machine: Machine | None = None
    seconds: float = 0.0

    @model_validator(mode="after")
    def _consistent(self) -> "TaskCheck":
        if (self.fitness is Fitness.UNFIT) != bool(self.problems):
            raise ValueError("a task is unfit exactly where it has problems")
        timed = self.estimate and (self.estimate.eager_ms or self.estimate.headroom)
        if self.device is Device.SIM and timed:
            raise ValueError("the simulator never reports time")
        return self
