"""A policy, judge and compiler that say what they were told to: for tests, demonstrations and dry runs."""

from collections.abc import Callable, Generator, Sequence

from warpsmith.types import (
    CompileResult,
    CompileStatus,
    ErrorStats,
    Machine,
    Phase,
    Status,
    Submission,
    Target,
    Task,
    Verdict,
)
from warpsmith.types.protocols import Environment, JudgeSettings, PolicyStep


class ScriptedPolicy:
    """Yields the given steps in order; an exception among them is raised in its place."""

    def __init__(self, steps: Sequence[PolicyStep | BaseException], name: str = "scripted") -> None:
        self.name = name
        self.received: list[Verdict | None] = []
        self._steps = steps

    def solve(self, env: Environment) -> Generator[PolicyStep, Verdict | None, None]:
        """Yields the script; `received` keeps what was sent back."""
        for step in self._steps:
            if isinstance(step, BaseException):
                raise step
            self.received.append((yield step))


class ScriptedJudge:
    """Answers with `answer(task, submission, settings, calls)`; `asked` keeps the submissions' hashes."""

    def __init__(self, answer: Callable[[Task, Submission, JudgeSettings, int], Verdict]) -> None:
        self.asked: list[str] = []
        self._answer = answer

    def judge(self, task: Task, submission: Submission, settings: JudgeSettings) -> Verdict:
        """The scripted verdict, or the exception that the script raises."""
        self.asked.append(submission.submission_hash)
        return self._answer(task, submission, settings, len(self.asked))


class ScriptedCompiler:
    """Every build is fine and builds nothing; `built` keeps the submissions' hashes."""

    def __init__(self) -> None:
        self.built: list[str] = []

    def build(self, submission: Submission, target: Target, task: Task | None = None) -> CompileResult:
        """An `ok` result keyed by the submission's hash."""
        self.built.append(submission.submission_hash)
        return CompileResult(status=CompileStatus.OK, key=submission.submission_hash)


def scripted_verdict(
    task: Task,
    submission: Submission,
    settings: JudgeSettings,
    status: Status = Status.PASSED,
    **fields: object,
) -> Verdict:
    """A complete verdict of the given status; `fields` replace its defaults."""
    passed = status in (Status.PASSED, Status.UNSTABLE)
    values: dict[str, object] = {
        "status": status,
        "device": settings.device,
        "rules": settings.rules,
        "task_hash": task.task_hash,
        "submission_hash": submission.submission_hash,
        "phase": Phase.DONE if passed else Phase.CORRECTNESS,
        "error": ErrorStats(rel=1e-7, max_abs=1e-6) if passed else None,
        "paper_gate": True if passed else None,
        "scale_gate": True if passed else None,
        "machine": Machine(device=settings.device),
    }
    return Verdict.model_validate(values | fields)
