"""What a policy works in: every judgement it asks for is stored, and none is paid for twice."""

from pathlib import Path

from warpsmith.errors import InfrastructureError
from warpsmith.store import RunStore
from warpsmith.types import CompileResult, Status, Submission, Target, Task, Verdict
from warpsmith.types.protocols import Compiler, Judge, JudgeSettings, Menu

FINAL = "final:"
"""Before the settings' hash of the judgement that is the score: it is never mixed with the search's."""


class EpisodeEnvironment:
    """Implements `Environment` over a judge, a compiler and a run's store."""

    def __init__(
        self,
        task: Task,
        *,
        judge: Judge,
        compiler: Compiler,
        target: Target,
        settings: JudgeSettings,
        store: RunStore,
        workdir: Path,
    ) -> None:
        self.task = task
        self.device = settings.device
        self.workdir = workdir
        self.judged: dict[str, Verdict] = {}
        """By submission hash, in the order asked for."""
        self._judge = judge
        self._compiler = compiler
        self._target = target
        self._settings = settings
        self._store = store

    def compile(self, submission: Submission) -> CompileResult:
        """Builds for this episode's device; nothing is stored, since builds are cached by content."""
        return self._compiler.build(submission, self._target, self.task)

    def judge(self, submission: Submission) -> Verdict:
        """The verdict on a submission, stored; one already in the store under the same settings is reused.

        Raises InfrastructureError, after storing the verdict that says so.
        """
        # The menu of matched accuracy is the score's alone: a search needs to know which is faster.
        searching = self._settings.model_copy(update={"baselines": Menu.PAPER, "interleave": False})
        verdict = self._verdict(submission, searching)
        self.judged[submission.submission_hash] = verdict
        return verdict

    def judge_final(self, submission: Submission) -> Verdict:
        """The fresh judgement that is the episode's score; made once, whatever the search saw."""
        return self._verdict(submission, self._settings, FINAL)

    def best(self) -> str | None:
        """Hash of the passed submission with the shortest median time; where none was timed, the last one."""
        passed = [(h, v) for h, v in self.judged.items() if v.status is Status.PASSED]
        timed = [(v.timings.candidate.median_ms, h) for h, v in passed if v.timings is not None]
        if timed:
            return min(timed, key=lambda pair: pair[0])[1]
        return passed[-1][0] if passed else None

    def _verdict(self, submission: Submission, settings: JudgeSettings, purpose: str = "") -> Verdict:
        settings_hash = purpose + settings.content_hash
        key = (self.task.task_hash, submission.submission_hash, settings_hash)
        if (stored := self._store.find_verdict(*key)) is not None:
            return stored
        self._store.put_submission(submission)
        verdict = self._judge.judge(self.task, submission, settings)
        self._store.put_verdict(verdict, settings_hash)
        if verdict.status is Status.INFRASTRUCTURE:
            raise InfrastructureError(
                verdict.detail or "the judge could not reach a verdict",
                hint="see warpsmith doctor; the same command goes on from here",
            )
        return verdict
