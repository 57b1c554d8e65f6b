"""The protocols between layers, in one place."""

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import Protocol, runtime_checkable

from warpsmith.types.base import Record
from warpsmith.types.compile import CompileResult, Target
from warpsmith.types.episode import StopReason, Turn
from warpsmith.types.job import Job, JobResult
from warpsmith.types.kinds import Device, Rules
from warpsmith.types.llm import Entry, Message, Reply, Usage
from warpsmith.types.submission import Submission
from warpsmith.types.task import Task
from warpsmith.types.verdict import Verdict


class Compiler(Protocol):
    """Builds a submission for a target; never raises for the submission's own faults.

    `task` tells the arguments of `ModelNew`, where the submission builds something from them.
    """

    def build(self, submission: Submission, target: Target, task: Task | None = None) -> CompileResult: ...


class Menu(StrEnum):
    """With which baselines a submission is compared on a GPU."""

    PAPER = "paper"
    """Eager and torch.compile in PyTorch's default mode."""
    MATCHED = "matched"
    """These, and every mode that is accurate enough to compete: what `speedup.matched` needs."""
    ALL = "all"
    """Every mode, competing or not, and further compilers; the ratios are those of MATCHED."""


class JudgeSettings(Record):
    """What a judgement is asked to do. Part of every verdict's cache key."""

    device: Device
    rules: Rules = Rules.PRACTICAL
    checks: int = 5
    """Correctness checks on fresh random inputs, at least 5."""
    timed_calls: int = 30
    """Timed calls wanted, 10 to 100; fewer where the budget forbids."""
    time_budget_s: float = 20.0
    call_timeout_s: float = 60.0
    interleave: bool = True
    """Measure again, in turn with its baseline, a ratio that lies near a threshold."""
    load_timeout_s: float = 120.0
    """Importing the submission and constructing its model."""
    timeout_s: float = 900.0
    """Whole judgement, compile excluded."""
    measure: bool = True
    """False: correctness only, also on cuda."""
    baselines: Menu = Menu.MATCHED
    """Nothing on the simulator, which has no time."""


@runtime_checkable
class Judge(Protocol):
    """Judges one submission on one task. Raises InfrastructureError only when no verdict can be recorded."""

    def judge(self, task: Task, submission: Submission, settings: JudgeSettings) -> Verdict: ...


class Standby(Protocol):
    """A job whose process has started and waits for its device. Run it once, or close it."""

    def alive(self) -> bool: ...

    def run(self, timeout_s: float) -> JobResult: ...

    def close(self) -> None: ...


class JobHandle(Protocol):
    """A job that was submitted to a pool."""

    def done(self) -> bool: ...

    def result(self, timeout_s: float | None = None) -> JobResult:
        """Waits for the result. Raises TimeoutError, and InfrastructureError where no device could be had."""
        ...

    def cancel(self) -> None:
        """Ends the job wherever it is; its result says so, unless it had ended before."""
        ...


class GpuPool(Protocol):
    """Runs jobs, one at a time on a device; all methods may be called from any thread.

    A pool elsewhere has a copy of the job's folder made there and brings what the job wrote back, so a job gets all
    its files before it is submitted. Only a job that stands by may be given more later, in the same folder.
    """

    def submit(self, job: Job) -> JobHandle:
        """Queues a job. Raises InfrastructureError where it could never run."""
        ...

    def run(self, job: Job) -> JobResult:
        """`submit` and `result` in one."""
        ...

    def standby(self, job: Job) -> Standby:
        """Starts a job's first stage, which needs no device and holds none."""
        ...

    def capacity(self, device: Device) -> int:
        """How many jobs run at a time."""
        ...

    def close(self) -> None:
        """Cancels all jobs; all that was started is gone when this returns."""
        ...


class Environment(Protocol):
    """What a policy works in: one task, a compiler and a judge. Everything asked of it is recorded."""

    task: Task
    device: Device
    rules: Rules
    """What a submission may use."""
    workdir: Path
    seed: int | None
    """What the policy's sampling is to be seeded with, where it samples."""

    def compile(self, submission: Submission) -> CompileResult: ...

    def judge(self, submission: Submission) -> Verdict: ...

    def verify(self, submission: Submission) -> Verdict:
        """Correctness alone, which costs less where there is a time to measure; what is known is not asked again."""
        ...

    def best(self) -> str | None:
        """Hash of the best submission judged so far."""
        ...

    def submission(self, submission_hash: str) -> Submission | None:
        """A submission that was judged, or that a step had as its answer."""
        ...

    def verdict(self, submission_hash: str) -> Verdict | None:
        """What `judge`, or else `verify`, answered on it in this episode."""
        ...

    @property
    def past_turns(self) -> tuple[Turn, ...]:
        """Turns that an interrupted process had finished; a policy may yield them again as they were."""
        ...

    @property
    def journal(self) -> tuple[Entry, ...]:
        """What was kept so far, by interrupted processes too."""
        ...

    def keep(self, turn: int, said: Message | Reply) -> None:
        """Stores what was said to or by a model, durably."""
        ...

    def hear(self, text: str) -> None:
        """A piece of a reply that is under way, for whoever watches; not stored."""
        ...


class PolicyStep(Record):
    """What a policy yields: a note, and a submission where it wants one judged.

    `answer`: what it would hand in if this were its last step; `usage`, `calls` and `bad_calls` are of this step.
    `left`: operators of the task that the submission, or the want of one, leaves to PyTorch.
    """

    note: str
    submission: Submission | None = None
    answer: Submission | None = None
    usage: Usage | None = None
    calls: int = 0
    bad_calls: int = 0
    left: tuple[str, ...] = ()


class Policy(Protocol):
    """Works on a task: yields steps, and is sent back each step's verdict (None where nothing was judged).

    What the generator returns is why it ended; None stands for FINISHED. A policy that can be told how to work has
    `settings`, a flat mapping of what it was told: part of an episode's identity, and recorded with it.
    """

    name: str

    def solve(self, env: Environment) -> Generator[PolicyStep, Verdict | None, StopReason | None]: ...


class Sandbox(Protocol):
    """Wraps a command so that it runs isolated."""

    name: str
    enterable: bool
    """Whether it makes namespaces that a process of this user, forked elsewhere, can join."""

    def unavailable(self) -> str | None:
        """None where it works on this machine, else the reason in one line."""
        ...

    def command(self, argv: Sequence[str], spec: "SandboxSpec", *, stays: bool = False) -> list[str]:
        """`argv` wrapped. `stays`, where it is `enterable`: it ends only when its stdin says how the guest ended."""
        ...


class SandboxUser(StrEnum):
    """As root, who runs what is isolated. The kernel counts a user's processes together, and keeps keys for each.

    `own`: a user that nobody else is while it runs, and who owns what it writes. `shared`: user 65534, for what
    several commands write one after the other. Otherwise each command has a user namespace of its own.
    """

    OWN = "own"
    SHARED = "shared"


class SandboxSpec(Record):
    """What an isolated process may see and use."""

    cwd: str
    read_only: tuple[str, ...] = ()
    """Paths to show read-only, besides the system's."""
    writable: tuple[str, ...] = ()
    user: SandboxUser = SandboxUser.OWN
    gpu: bool = False
    cpu_seconds: int = 0
    """0: no limit."""
    max_processes: int = 512
    max_file_bytes: int = 1 << 30
    tmp_bytes: int = 1 << 30


class DeviceLease(Protocol):
    """Exclusive use of a device for a while."""

    def lease(self, device: Device, timeout_s: float) -> AbstractContextManager[int | None]: ...
