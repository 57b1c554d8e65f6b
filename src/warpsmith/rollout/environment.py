"""What a policy works in: every judgement it asks for is stored, and none is paid for twice."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from warpsmith.errors import InfrastructureError
from warpsmith.rollout.journal import Journal
from warpsmith.store import RunStore
from warpsmith.types import CompileResult, Device, Status, Submission, Target, Task, Turn, Verdict
from warpsmith.types.llm import Entry, Message, Reply
from warpsmith.types.protocols import Compiler, Judge, JudgeSettings, Menu

_CORRECT = frozenset({Status.PASSED, Status.UNSTABLE})
FINAL = "final:"
"""Before the settings' hash of the judgement that is the score: it is never mixed with the search's."""


class EpisodeEnvironment:
    """Implements `Environment` over a judge, a compiler and a run's store.

    Several threads may ask for judgements; they take turns. `kept` is told of each entry of the journal once it is
    stored, `heard` of each piece of a reply under way.
    """

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
        journal: Journal,
        past_turns: tuple[Turn, ...] = (),
        seed: int | None = None,
        kept: Callable[[Entry], None] | None = None,
        heard: Callable[[str], None] | None = None,
    ) -> None:
        self.task = task
        self.device = settings.device
        self.rules = settings.rules
        self.workdir = workdir
        self.past_turns = past_turns
        self.seed = seed
        self.judged: dict[str, Verdict] = {}
        """By submission hash, in the order asked for."""
        self._judge = judge
        self._compiler = compiler
        self._target = target
        self._settings = settings
        self._store = store
        self._journal = journal
        self._kept = kept
        self._heard = heard
        self._turn = 0
        self._one = threading.RLock()
        self._recall()

    @property
    def journal(self) -> tuple[Entry, ...]:
        """What was kept so far, by interrupted processes too."""
        return tuple(self._journal.entries)

    def keep(self, turn: int, said: Message | Reply) -> None:
        """Stores what was said to or by a model in turn `turn`, durably."""
        self._turn = turn
        self._append(**{"reply" if isinstance(said, Reply) else "message": said})

    def hear(self, text: str) -> None:
        """Passes a piece of a reply on to whoever watches."""
        if self._heard is not None:
            self._heard(text)

    def submission(self, submission_hash: str) -> Submission | None:
        """A submission that was judged, or that a step had as its answer."""
        return self._store.submission(submission_hash)

    def verdict(self, submission_hash: str) -> Verdict | None:
        """What `judge`, or else `verify`, answered on it in this episode."""
        return self.judged.get(submission_hash)

    def compile(self, submission: Submission) -> CompileResult:
        """Builds for this episode's device; nothing is stored, since builds are cached by content."""
        return self._compiler.build(submission, self._target, self.task)

    def judge(self, submission: Submission) -> Verdict:
        """The verdict on a submission, stored; one already in the store under the same settings is reused.

        Raises InfrastructureError, after storing the verdict that says so.
        """
        with self._one:
            known = self.judged.get(submission.submission_hash)
            if known is not None and known.status not in _CORRECT:
                return known
            return self._asked(submission, self._searching)

    def verify(self, submission: Submission) -> Verdict:
        """Correctness alone, stored too; a verdict of either kind on the same submission is reused.

        Raises InfrastructureError as `judge`.
        """
        with self._one:
            known = self.judged.get(submission.submission_hash)
            if known is not None:
                return known
            # the simulator measures nothing: there the two are one question
            untimed = {"measure": False} if self.device is Device.CUDA else {}
            return self._asked(submission, self._searching.model_copy(update=untimed))

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

    @property
    def _searching(self) -> JudgeSettings:
        # The menu of matched accuracy is the score's alone: a search needs to know which is faster.
        return self._settings.model_copy(update={"baselines": Menu.PAPER, "interleave": False})

    def _asked(self, submission: Submission, settings: JudgeSettings) -> Verdict:
        """Caller holds the lock."""
        verdict = self._verdict(submission, settings)
        known = self.judged.get(submission.submission_hash)
        self.judged[submission.submission_hash] = verdict
        # a policy without a model keeps no journal: its turns tell all
        if verdict != known and self._journal.entries:
            self._append(judged=submission.submission_hash, verdict_hash=verdict.content_hash)
        return verdict

    def _recall(self) -> None:
        """What an interrupted process had judged counts as before."""
        for entry in self._journal.entries:
            self._turn = entry.turn
            verdict = self._store.verdict(entry.verdict_hash) if entry.verdict_hash else None
            if entry.judged and verdict is not None:
                self.judged[entry.judged] = verdict

    def _append(self, **said: object) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        entry = Entry.model_validate({"turn": self._turn, "at": now, **said})
        with self._one:
            self._journal.append(entry)
            if self._kept is not None:
                self._kept(entry)

    def _verdict(self, submission: Submission, settings: JudgeSettings, purpose: str = "") -> Verdict:
        settings_hash = purpose + settings.content_hash
        key = (self.task.task_hash, submission.submission_hash, settings_hash)
        with self._store.answering(*key):
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
