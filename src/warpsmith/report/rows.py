"""What a report says of each task, read from run folders; nothing is judged or guessed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from warpsmith.errors import UsageError
from warpsmith.rollout.journal import journal_path, read_journal
from warpsmith.store import RunReader
from warpsmith.types import Episode, Status, Submission, Task, Verdict

MISSING = "missing"


@dataclass(frozen=True)
class TaskRow:
    """One episode. `verdict` is its score; where nothing passed, the last verdict that was given."""

    run: Path
    name: str
    task: Task | None
    episode: Episode | None
    verdict: Verdict | None
    submission: Submission | None
    verdicts: dict[str, Verdict]
    transcript: str = ""

    @property
    def status(self) -> str:
        """The verdict's status, or `missing`."""
        return self.verdict.status.value if self.verdict else MISSING

    @property
    def passed(self) -> bool:
        """Whether the score is a pass."""
        return self.verdict is not None and self.verdict.status is Status.PASSED

    @property
    def level(self) -> int | None:
        """KernelBench's level, where the task has one."""
        return self.task.level if self.task else None

    def ratio(self, protocol: str, side: str) -> float | None:
        """Speed-up of a pass: `paper` or `matched`, over `eager`, `compile` or (matched) `best`."""
        speedup = self.verdict.speedup if self.passed and self.verdict else None
        return getattr(getattr(speedup, protocol, None), side, None)


def run_folders(paths: Sequence[Path]) -> list[Path]:
    """The run folders at or below `paths`. Raises UsageError where one holds none."""
    found = []
    for path in paths:
        inside = sorted(p.parent for p in path.rglob("manifest.json") if (p.parent / "segments").is_dir())
        if not inside:
            raise UsageError(f"{path} holds no run", hint="give a folder that a run wrote with --out")
        found += inside
    return list(dict.fromkeys(found))


def read_rows(paths: Sequence[Path]) -> list[TaskRow]:
    """Every task of the runs at or below `paths`, in order of level, problem and name.

    A run without any finished episode counts as its task, missing; where some are finished, the others are not told.
    """
    rows = [row for folder in run_folders(paths) for row in _rows(RunReader(folder))]
    return sorted(rows, key=_order)


def _order(row: TaskRow) -> tuple[int, int, str]:
    task = row.task
    return (
        task.level if task and task.level is not None else 99,
        task.problem_id if task and task.problem_id is not None else 0,
        row.name,
    )


def _rows(run: RunReader) -> Iterator[TaskRow]:
    episodes = run.episodes()
    known = {verdict.content_hash: verdict for verdict in run.verdicts()}
    for episode in episodes:
        yield _row(run, episode, known)
    if not episodes:
        yield TaskRow(run.path, run.manifest.task_name, None, None, None, None, {})


def _row(run: RunReader, episode: Episode, known: dict[str, Verdict]) -> TaskRow:
    judged = [t.verdict_hash for t in episode.turns if t.verdict_hash]
    chosen = episode.final_verdict_hash or (judged[-1] if judged else None)
    verdicts = {h: known[h] for h in (*judged, chosen) if h in known}
    verdict = verdicts.get(chosen) if chosen else None
    submission_hash = episode.best_submission_hash or (verdict.submission_hash if verdict else None)
    entries = read_journal(journal_path(run.path, episode.episode_id))
    said = ""
    if entries:
        from warpsmith.report.transcript import transcript

        said = transcript(episode, entries, known)
    return TaskRow(
        run=run.path,
        name=episode.task_name,
        task=_task(run, episode),
        episode=episode,
        verdict=verdict,
        submission=run.submission(submission_hash) if submission_hash else None,
        verdicts=verdicts,
        transcript=said,
    )


def _task(run: RunReader, episode: Episode) -> Task | None:
    data = run.blob(episode.task_record_hash) if episode.task_record_hash else None
    try:
        return Task.model_validate_json(data) if data else None
    except ValidationError:
        return None
