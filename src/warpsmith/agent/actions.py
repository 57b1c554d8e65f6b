"""What a model may ask the judge for: the same six actions from the workspace's scripts and as tools."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeVar

from warpsmith.agent import actions_text as text
from warpsmith.agent.actions_speed import profiled_kernels
from warpsmith.agent.actions_workspace import AgentWorkspace
from warpsmith.agent.base import Answer, say
from warpsmith.agent.context import ToolContext
from warpsmith.errors import SubmissionUnreadableError
from warpsmith.types import (
    CompileResult,
    CompileStatus,
    Device,
    ProfileReport,
    Status,
    Submission,
    Target,
    Task,
    Verdict,
)
from warpsmith.types.base import Record
from warpsmith.types.protocols import Compiler, Environment, Judge, JudgeSettings


class Action(StrEnum):
    """What can be asked for."""

    COMPILE = "compile"
    VERIFY = "verify"
    PROFILE = "profile"
    NCU = "ncu"
    ROOFLINE = "roofline"
    SANITIZE = "sanitize"


class ActionAnswer(Record):
    """An answer for the model. `ok`: the submission did what was asked about; `text` is bounded."""

    action: Action
    text: str
    ok: bool
    submission_hash: str | None = None
    """None where the workspace holds no submission."""
    status: str | None = None
    """Of the verdict or the build."""


class Profiler(Protocol):
    """Measures the kernels of a submission that was judged so."""

    def after(self, verdict: Verdict, task: Task, submission: Submission) -> ProfileReport: ...


class Service(Protocol):
    """Builds and judges what it is handed; called by one thread at a time. InfrastructureError propagates."""

    def compile(self, submission: Submission) -> CompileResult: ...

    def verify(self, submission: Submission) -> Verdict:
        """Correctness at least."""
        ...

    def profile(self, submission: Submission) -> Verdict:
        """Correctness, and times where the device has any."""
        ...

    def ncu(self, submission: Submission) -> ProfileReport: ...

    def sanitize(self, submission: Submission) -> Verdict: ...


@dataclass(frozen=True)
class JudgeService:
    """A judge of this machine. `sanitizing` and `profiler` are None where they are not to be had."""

    task: Task
    judge: Judge
    compiler: Compiler
    target: Target
    settings: JudgeSettings
    sanitizing: Judge | None = None
    profiler: Profiler | None = None

    def compile(self, submission: Submission) -> CompileResult:
        """A build for the target."""
        return self.compiler.build(submission, self.target, self.task)

    def verify(self, submission: Submission) -> Verdict:
        """Untimed."""
        return self.judge.judge(self.task, submission, self.settings.model_copy(update={"measure": False}))

    def profile(self, submission: Submission) -> Verdict:
        """Timed on a GPU."""
        return self.judge.judge(self.task, submission, self.settings)

    def ncu(self, submission: Submission) -> ProfileReport:
        """Verified first: a submission that is wrong is not profiled."""
        if self.profiler is None:
            return ProfileReport(problem=_NO_PROFILER)
        return self.profiler.after(self.verify(submission), self.task, submission)

    def sanitize(self, submission: Submission) -> Verdict:
        """By the judge that sanitizes; without one the plain verdict, whose checks then hold no sanitizer."""
        untimed = self.settings.model_copy(update={"measure": False})
        return (self.sanitizing or self.judge).judge(self.task, submission, untimed)


@dataclass(frozen=True)
class EnvironmentService:
    """An episode's environment, which stores what it judges and judges nothing twice."""

    environment: Environment
    sanitizing: Judge | None = None
    profiler: Profiler | None = None
    settings: JudgeSettings | None = None
    """For `sanitizing`; None: the device's defaults."""

    def compile(self, submission: Submission) -> CompileResult:
        """A build for the episode's device."""
        return self.environment.compile(submission)

    def verify(self, submission: Submission) -> Verdict:
        """Correctness; the episode's verdict where there is one."""
        return self.environment.verify(submission)

    def profile(self, submission: Submission) -> Verdict:
        """The episode's verdict."""
        return self.environment.judge(submission)

    def ncu(self, submission: Submission) -> ProfileReport:
        """Verified first: a submission that is wrong is not profiled."""
        if self.profiler is None:
            return ProfileReport(problem=_NO_PROFILER)
        return self.profiler.after(self.verify(submission), self.environment.task, submission)

    def sanitize(self, submission: Submission) -> Verdict:
        """As `JudgeService.sanitize`."""
        if self.sanitizing is None:
            return self.environment.verify(submission)
        settings = self.settings or JudgeSettings(
            device=self.environment.device, rules=self.environment.rules
        )
        untimed = settings.model_copy(update={"measure": False})
        return self.sanitizing.judge(self.environment.task, submission, untimed)


Found = TypeVar("Found", Verdict, CompileResult, ProfileReport)
Asked = Callable[[Action, Submission, Verdict | CompileResult | ProfileReport], None]
"""Told of what was asked about and what was found, before the model is."""


@dataclass
class Actions:
    """Answers what is asked about one workspace. Calls from several threads take turns, at `lock`."""

    workspace: AgentWorkspace
    service: Service
    asked: Asked | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)

    def run(self, action: Action) -> ActionAnswer:
        """Copies the workspace's sources, asks the service about the copy, and says what was found.

        Fixed files that were changed are written back first. Raises InfrastructureError.
        """
        with self.lock:
            restored = self.workspace.restore()
            try:
                submission = self.workspace.snapshot()
            except SubmissionUnreadableError as error:
                said, ok, status, known = text.unreadable(error), False, None, None
            else:
                said, ok, status = self._about(action, submission)
                known = submission.submission_hash
        said = text.capped("\n".join([*text.restored_lines(restored), said]))
        return ActionAnswer(action=action, text=said, ok=ok, submission_hash=known, status=status)

    def _about(self, action: Action, submission: Submission) -> tuple[str, bool, str]:
        if action is Action.COMPILE:
            built = self._told(action, submission, self.service.compile(submission))
            return text.compiled(built, submission), built.status is CompileStatus.OK, built.status.value
        if action is Action.NCU:
            report = self._told(action, submission, self.service.ncu(submission))
            return profiled_kernels(report), not report.problem, "problem" if report.problem else "measured"
        ask, say_it = {
            Action.VERIFY: (self.service.verify, text.verified),
            Action.PROFILE: (self.service.profile, text.timed),
            Action.ROOFLINE: (self.service.profile, text.beside_roofline),
            Action.SANITIZE: (self.service.sanitize, text.sanitized),
        }[action]
        verdict = self._told(action, submission, ask(submission))
        return say_it(verdict, submission), verdict.status is Status.PASSED, verdict.status.value

    def _told(self, action: Action, submission: Submission, found: Found) -> Found:
        if self.asked is not None:
            self.asked(action, submission, found)
        return found


class NoArguments(Record):
    """An action looks at the workspace as it is."""


@dataclass(frozen=True)
class ActionTool:
    """An action as a tool of the model."""

    actions: Actions
    action: Action
    name: str
    description: str
    arguments: type[Record] = NoArguments

    def run(self, arguments: NoArguments, context: ToolContext) -> Answer:
        """Raises InfrastructureError where the judge cannot reach a verdict."""
        answer = self.actions.run(self.action)
        return say(answer.text, is_error=not answer.ok)


def action_tools(actions: Actions, device: Device) -> tuple[ActionTool, ...]:
    """The tools, in the order in which models are told of them; those that need a GPU only where there is one."""
    return tuple(
        ActionTool(actions, action, name, description)
        for action, (name, description, needs_gpu) in _TOOLS.items()
        if device is Device.CUDA or not needs_gpu
    )


_NO_PROFILER = "Nsight Compute is not offered here"
_TOOLS = {
    Action.COMPILE: (
        "Compile",
        "Builds kernels/ and model_new.py as the judge does, and returns the compiler's errors with their source "
        "lines, or the registers, spills and shared memory of each kernel. Takes no arguments.",
        False,
    ),
    Action.VERIFY: (
        "Verify",
        "Builds the workspace and compares ModelNew with Model on fresh random inputs and changed weights, outside "
        "the sandbox. Returns what differed, where, and the likely cause. Takes no arguments.",
        False,
    ),
    Action.PROFILE: (
        "Profile",
        "Verifies, then times ModelNew beside eager PyTorch and torch.compile, and returns the times, which kernels "
        "took how long, and what to try next. Takes no arguments.",
        True,
    ),
    Action.NCU: (
        "NcuSummary",
        "Measures each kernel with Nsight Compute: memory and SM throughput, occupancy, cache hits, and what warps "
        "wait for, with the likely cause. Slow (up to a minute); the submission must be correct. Takes no arguments.",
        True,
    ),
    Action.ROOFLINE: (
        "Roofline",
        "Says how far the time of ModelNew is from what the GPU's bandwidth and arithmetic allow, and which of the "
        "two is the limit. Takes no arguments.",
        True,
    ),
    Action.SANITIZE: (
        "Sanitize",
        "Runs the kernels under checks for out-of-bounds and misaligned accesses, memory that was never written, and "
        "deadlocks at barriers; returns the faulty line. Use it after a crash or NaN. Takes no arguments.",
        False,
    ),
}
