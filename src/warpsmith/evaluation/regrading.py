"""Stored submissions judged again with today's judge, and stored verdicts rewarded again."""

from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

import warpsmith
from warpsmith.errors import InfrastructureError, UsageError
from warpsmith.reward import SpeedupKind, reward_of
from warpsmith.store import RunReader, RunStore
from warpsmith.store.segments import VerdictLine, read_segment, segment_paths
from warpsmith.types import STATUS_TABLE, Device, Record, Reward, Task, Verdict, sha256_hex
from warpsmith.types.protocols import Judge, JudgeSettings

REGRADE = "regrade:"
"""Before the hash of settings and judge of a verdict reached again: it is never mixed with a run's own."""
JUDGING = ("judge", "compile", "sim", "sandbox", "types")
"""Packages whose source decides a verdict."""


class Regraded(Record):
    """One submission's verdict in the run (None where it was stored but never judged), and today's."""

    task_name: str
    submission_hash: str
    old: Verdict | None
    new: Verdict

    @property
    def changed(self) -> bool:
        """Whether the status is another one."""
        return self.old is None or self.old.status is not self.new.status

    def summary(self) -> dict[str, Any]:
        """Plain values, old and new side by side."""
        return {
            "task": self.task_name,
            "task_hash": self.new.task_hash,
            "submission": self.submission_hash,
            "changed": self.changed,
            "old": _brief(self.old) if self.old else None,
            "new": _brief(self.new),
        }


class Rescored(Record):
    """One stored verdict's reward as the run recorded it (None where it recorded none), and by today's rule."""

    task_name: str
    submission_hash: str
    status: str
    recorded: bool
    old: Reward | None
    new: Reward

    @property
    def changed(self) -> bool:
        """Whether a recorded reward is another one now."""
        return self.recorded and (
            self.old is None or (self.old.milestone, self.old.raw) != (self.new.milestone, self.new.raw)
        )

    def summary(self) -> dict[str, Any]:
        """Plain values."""
        return {**self.model_dump(mode="json"), "changed": self.changed}


def regrade(
    store: RunStore,
    judge: Judge,
    device: Device,
    *,
    judge_version: str | None = None,
    only: Collection[tuple[str, str]] | None = None,
    told: Callable[[Regraded, int, int], None] = lambda row, done, total: None,
) -> list[Regraded]:
    """Judges every submission of an opened run again, under the settings of its manifest, on `device`.

    `only`: these pairs of task and submission, each of which the run must hold.

    New verdicts are appended under a key of their own: settings and `judge_version`, today's source by default. One
    that is there already is reused, so that a killed regrade goes on. Raises UsageError where there is nothing to
    judge, and InfrastructureError where the store lacks a task or submission.
    """
    questions = _questions(store)
    if only is not None:
        questions = {pair: questions.get(pair) for pair in only}
    settings = recorded_settings(store, device)
    key = regrade_key(settings, judge_version)
    tasks = _tasks(store)
    done: list[Regraded] = []
    for (task_hash, submission_hash), old in questions.items():
        task, submission = tasks.get(task_hash), store.submission(submission_hash)
        if task is None or submission is None:
            lost = f"task {task_hash[:12]}" if task is None else f"submission {submission_hash[:12]}"
            raise InfrastructureError(f"{store.path} lacks {lost}", hint="the run folder is incomplete")
        new = store.find_verdict(task_hash, submission_hash, key)
        if new is None:
            new = judge.judge(task, submission, settings)
            store.put_verdict(new, key)
        done.append(Regraded(task_name=task.name, submission_hash=submission_hash, old=old, new=new))
        told(done[-1], len(done), len(questions))
    return done


def regrade_key(settings: JudgeSettings, judge_version: str | None = None) -> str:
    """Under what a regrade's verdicts are stored: the question, and the judge that answered."""
    return REGRADE + sha256_hex(f"{settings.content_hash} {judge_version or judge_fingerprint()}")


def rescore(run: RunReader, kind: SpeedupKind = SpeedupKind.MATCHED) -> list[Rescored]:
    """Rewards of the stored verdicts by today's rule; nothing is judged. Raises UsageError where there are none."""
    finals = {e.final_verdict_hash: e for e in run.episodes() if e.final_verdict_hash}
    names = {e.task_hash: e.task_name for e in run.episodes()}
    verdicts = [line.verdict for line in own_verdicts(run.path)]
    # The search may have seen the very same verdict before: the score is the later one.
    scores = {verdict.content_hash: i for i, verdict in enumerate(verdicts)}
    rows = []
    for i, verdict in enumerate(verdicts):
        episode = finals.get(verdict.content_hash) if scores[verdict.content_hash] == i else None
        rows.append(
            Rescored(
                task_name=names.get(verdict.task_hash, run.manifest.task_name),
                submission_hash=verdict.submission_hash,
                status=verdict.status.value,
                recorded=episode is not None,
                old=episode.reward if episode else None,
                new=reward_of(verdict, kind),
            )
        )
    if not rows:
        raise _empty(run)
    return rows


def recorded_settings(run: RunReader, device: Device) -> JudgeSettings:
    """The settings that the run was judged under, on `device`; what its manifest does not name is today's default."""
    named = {k: v for k, v in run.manifest.settings.items() if k in JudgeSettings.model_fields}
    return JudgeSettings.model_validate(named | {"device": device})


@cache
def judge_fingerprint() -> str:
    """Hash of the source that decides a verdict, so that another judge never answers for this one."""
    root = Path(warpsmith.__file__).parent
    files = sorted(
        path
        for name in JUDGING
        for path in (root / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    return sha256_hex("".join(f"{p.relative_to(root)} {sha256_hex(p.read_bytes())}\n" for p in files))


def _questions(run: RunReader) -> dict[tuple[str, str], Verdict | None]:
    """(task, submission) in the order first judged, with the last of the run's own verdicts.

    One that answers nothing gives way to any that does. Submissions stored but never judged come last.
    """
    found: dict[tuple[str, str], Verdict | None] = {}
    for line in own_verdicts(run.path):
        verdict = line.verdict
        pair = (verdict.task_hash, verdict.submission_hash)
        if found.get(pair) is None or not STATUS_TABLE[verdict.status].retried:
            found[pair] = verdict
    for submission_hash in _unjudged(run, {submission for _, submission in found}):
        found[(run.manifest.task_hash, submission_hash)] = None
    if not found:
        raise _empty(run)
    return found


def _unjudged(run: RunReader, judged: set[str]) -> list[str]:
    if run.manifest.tasks:
        # which of its tasks such a submission is for is told by the finished episode alone
        return []
    hashes = [turn.submission_hash for turn in run.turns()]
    return [h for h in dict.fromkeys(hashes) if h is not None and h not in judged]


def own_verdicts(path: Path) -> Iterator[VerdictLine]:
    """The run's verdicts in order, those of regrades left out."""
    for segment in segment_paths(path / "segments"):
        for line in read_segment(segment):
            if isinstance(line, VerdictLine) and not line.settings_hash.startswith(REGRADE):
                yield line


def _tasks(run: RunReader) -> dict[str, Task]:
    """Every task whose record lies among the run's blobs; an unfinished episode names its task nowhere else."""
    found = {}
    for path in sorted((run.path / "blobs").glob("*/*")):
        data = run.blob(path.name)
        if data is None or not data.startswith(b'{"code":'):
            continue
        try:
            task = Task.model_validate_json(data)
        except ValidationError:
            continue
        found[task.task_hash] = task
    return found


def _empty(run: RunReader) -> UsageError:
    return UsageError(
        f"{run.path} holds no judged submission: there is nothing to regrade",
        hint="give the folder of a run that judged at least one",
    )


def _brief(verdict: Verdict) -> dict[str, Any]:
    return {
        "status": verdict.status.value,
        "device": verdict.device.value,
        "speedup": verdict.speedup.model_dump(mode="json") if verdict.speedup else None,
        "reward": reward_of(verdict).milestone,
        "detail": verdict.detail,
    }
