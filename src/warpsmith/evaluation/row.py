"""One flat record a task and sample: what every metric and table is computed from. Imports no torch."""

from collections.abc import Iterable, Sequence
from enum import StrEnum

from pydantic import Field, model_validator

from warpsmith.errors import UsageError
from warpsmith.reward import SpeedupKind
from warpsmith.types import STATUS_TABLE, Device, Record, Rules, Status, StopReason, TaskCheck
from warpsmith.types.verdict import Milliseconds, Ratio


class Against(StrEnum):
    """What a speed-up is over: the protocol, and the side of its baselines."""

    PAPER_EAGER = "paper_eager"
    PAPER_COMPILE = "paper_compile"
    MATCHED_EAGER = "matched_eager"
    MATCHED_COMPILE = "matched_compile"
    MATCHED_BEST = "matched_best"

    @property
    def kind(self) -> SpeedupKind:
        """`paper` or `matched`."""
        return SpeedupKind(self.value.partition("_")[0])

    @property
    def side(self) -> str:
        """`eager`, `compile` or `best`."""
        return self.value.partition("_")[2]

    @staticmethod
    def of(kind: SpeedupKind) -> "tuple[Against, ...]":
        """Every side that a protocol has."""
        return tuple(against for against in Against if against.kind is kind)


class Answer(StrEnum):
    """Which of an episode's submissions counts: the best of its trajectory, or what it ended with."""

    BEST = "best"
    FINAL = "final"


class Measured(Record):
    """A ratio with what its noise allows in 95 of 100 cases; both ends None where that is not known."""

    ratio: Ratio
    low: Ratio | None = None
    high: Ratio | None = None

    @model_validator(mode="after")
    def _ordered(self) -> "Measured":
        if (self.low is None) != (self.high is None):
            raise ValueError("an interval has two ends or none")
        if self.low is not None and self.high is not None and not self.low <= self.high:
            raise ValueError("an interval's low end is not above its high end")
        return self

    @property
    def faster(self) -> bool:
        """Merely faster, as the published tables count."""
        return self.ratio > 1

    @property
    def clearly_faster(self) -> bool:
        """Whether the whole interval lies above 1."""
        return self.low is not None and self.low > 1

    @property
    def tied(self) -> bool:
        """Whether noise alone may make it 1."""
        return self.low is not None and self.high is not None and self.low <= 1 <= self.high


class Score(Record):
    """How one submission was judged. Only a pass has ratios: whatever else happened is never a win."""

    status: Status
    candidate_ms: Milliseconds | None = None
    ratios: dict[Against, Measured] = Field(default_factory=dict)
    """Absent: not measured."""
    floor_share: Ratio | None = None
    """The byte floor over the candidate's time."""
    launch_bound: bool = False
    """Whether launches, not kernels, take most of the candidate's time."""
    compute_bound: bool | None = None
    """Whether the task's products take longer than its traffic, both at the GPU's peaks; None: not known."""
    library_share: float | None = None
    """Of the device time, that in cuBLAS and cuDNN; None: not observed."""
    check: str = ""
    """Which check said that it cheats."""

    @model_validator(mode="after")
    def _earned(self) -> "Score":
        if self.ratios and self.status is not Status.PASSED:
            raise ValueError(f"what is {self.status.value} has no speed-up")
        return self


class State(StrEnum):
    """What became of a task and sample."""

    JUDGED = "judged"
    NOTHING_SUBMITTED = "nothing submitted"
    """The episode ended and put nothing before the judge."""
    UNFINISHED = "unfinished"
    """It was begun, and did not end or ended for a reason that is not the policy's."""
    MISSING = "missing"
    """It was planned and never begun."""


class Condition(Record):
    """What must be alike for two figures to stand in one line of a table."""

    gpu: str
    """The GPU's name, or `simulator`."""
    rules: Rules
    protocol: str = ""
    """By name, where the run follows one."""
    baselines: str = ""
    """The menu of baselines that the run asked for."""


class Row(Record):
    """One sample of one task. Shares count every row, whatever became of it."""

    series: str
    """Who worked: rows of one series stand in one line of a table."""
    variant: str = ""
    """What was left out, where the run is an ablation."""
    episode_id: str | None = None
    task_hash: str
    task_name: str
    level: int | None = None
    problem_id: int | None = None
    sample: int = Field(0, ge=0)
    device: Device
    condition: Condition | None = None
    """Of the verdict that is the score; None where nothing was judged."""
    versions: str = ""
    """Driver and torch of that verdict, and the judges that the run was made with: where they differ it is said."""
    state: State
    detail: str = ""
    """What the verdict said, or why there is none."""
    best: Score | None = None
    """The fresh judgement of the best submission; where none passed, the last verdict."""
    final: Score | None = None
    """The same of what the episode ended with, where that was recorded."""
    stop: StopReason | None = None
    """Why the episode ended; None where there is none."""
    left: tuple[str, ...] = ()
    """Operators that the scored submission leaves to PyTorch, by its policy's own word."""
    flags: tuple[str, ...] = ()
    """What weakens the task, by its check."""
    unfit: tuple[str, ...] = ()
    """Why its check would refuse it as training data."""
    turns: int | None = None
    tokens: int | None = None
    """Read and written by a language model; None where none took part."""
    judge_seconds: float | None = None
    """Of all its judgements, without compiling: about what it held a device for."""

    @model_validator(mode="after")
    def _judged(self) -> "Row":
        if (self.state is State.JUDGED) != (self.best is not None):
            raise ValueError("a row is judged exactly where it has a score")
        return self

    @property
    def task_key(self) -> tuple[str, str]:
        """What tasks are told apart by: their code, and the name, since sets hold the same code twice."""
        return self.task_hash, self.task_name

    @property
    def outcome(self) -> str:
        """The score's status, or what became of the row instead."""
        return self.best.status.value if self.best else self.state.value

    @property
    def unanswered(self) -> bool:
        """Whether nothing is known of the policy here: missing, unfinished, or lost to the machine."""
        lost = self.best is not None and STATUS_TABLE[self.best.status].retried
        return lost or self.state in (State.MISSING, State.UNFINISHED)

    def score(self, answer: Answer = Answer.BEST) -> Score | None:
        """The score of the best or of the final answer."""
        return self.best if answer is Answer.BEST else self.final

    def passed(self, answer: Answer = Answer.BEST) -> bool:
        """Whether that answer is right."""
        score = self.score(answer)
        return score is not None and score.status is Status.PASSED

    def measured(self, against: Against, answer: Answer = Answer.BEST) -> Measured | None:
        """That answer's speed-up; None where it did not pass or was not timed."""
        score = self.score(answer)
        return score.ratios.get(against) if score else None


def checked(rows: Iterable[Row]) -> list[Row]:
    """The same rows; UsageError where one task and sample stands there twice in a series."""
    seen: set[tuple[str, str, str, int]] = set()
    found = list(rows)
    for row in found:
        key = (row.series, *row.task_key, row.sample)
        if key in seen:
            raise UsageError(
                f"{row.task_name}, sample {row.sample}, of {row.series} is there twice",
                hint="give runs that have no task in common, or compare them with --against",
            )
        seen.add(key)
    return found


def with_checks(rows: Sequence[Row], checks: Iterable[TaskCheck]) -> list[Row]:
    """Rows with what a check of their task said, by the hash of its code."""
    said = {check.task_hash: check for check in checks}
    return [
        row.model_copy(update={"flags": check.flags, "unfit": check.problems})
        if (check := said.get(row.task_hash))
        else row
        for row in rows
    ]
