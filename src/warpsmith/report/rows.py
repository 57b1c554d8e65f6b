"""What a report says of each task and sample, read from run folders; nothing is judged or guessed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from warpsmith.errors import UsageError
from warpsmith.evaluation.metrics import order
from warpsmith.evaluation.row import Against, Row, checked
from warpsmith.evaluation.rows import rows_of, series_name, task_of
from warpsmith.rollout.journal import journal_path, read_journal
from warpsmith.store import RunReader
from warpsmith.types import Episode, Submission, Task, TaskRef, TaskSource, Verdict


@dataclass(frozen=True)
class TaskRow:
    """A row of the figures with everything that the store has about it."""

    run: Path
    row: Row
    task: Task | None = None
    episode: Episode | None = None
    verdict: Verdict | None = None
    """The score; where nothing passed, the last verdict that was given."""
    submission: Submission | None = None
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    transcript: str = ""

    @property
    def name(self) -> str:
        """The task's name, with the sample where it is not the first."""
        return self.row.task_name + (f" (sample {self.row.sample})" if self.row.sample else "")

    @property
    def status(self) -> str:
        """The verdict's status, or what became of the row instead."""
        return self.row.outcome

    @property
    def passed(self) -> bool:
        """Whether the score is a pass."""
        return self.row.passed()

    @property
    def level(self) -> int | None:
        """KernelBench's level, where the task has one."""
        return self.row.level

    @property
    def ref(self) -> TaskRef:
        """The task without its text, whether or not it was ever begun."""
        row = self.row
        return TaskRef(
            name=row.task_name, task_hash=row.task_hash, source=TaskSource.KERNELBENCH, level=row.level,
            problem_id=row.problem_id,
        )  # fmt: skip

    def ratio(self, against: Against) -> float | None:
        """Speed-up of a pass; None where it was not measured."""
        seen = self.row.measured(against)
        return seen.ratio if seen else None


def run_folders(paths: Sequence[Path]) -> list[Path]:
    """The run folders at or below `paths`. Raises UsageError where one holds none."""
    found = []
    for path in paths:
        inside = sorted(p.parent for p in path.rglob("manifest.json") if (p.parent / "segments").is_dir())
        if not inside:
            raise UsageError(f"{path} holds no run", hint="give a folder that a run wrote with --out")
        found += inside
    return list(dict.fromkeys(found))


def read_rows(paths: Sequence[Path], labels: Sequence[str] = ()) -> list[TaskRow]:
    """Everything that the runs at or below `paths` cover, in order of level, problem, name and sample.

    `labels` name the series of each path, in order; without them a run is named by its policy, protocol and variant.
    Raises UsageError where one series has a task and sample twice, or labels do not fit the paths.
    """
    if labels and len(labels) != len(paths):
        raise UsageError(
            f"{len(labels)} labels for {len(paths)} runs",
            hint="give --label once for each run, or not at all",
        )
    rows = []
    for path, label in zip(paths, labels or [""] * len(paths), strict=True):
        for folder in run_folders([path]):
            run = RunReader(folder)
            rows += _rows(run, label or series_name(run))
    checked(row.row for row in rows)
    return sorted(rows, key=lambda row: (*order(row.row), row.row.series))


def _rows(run: RunReader, series: str) -> Iterator[TaskRow]:
    episodes = {episode.episode_id: episode for episode in run.episodes()}
    known = {verdict.content_hash: verdict for verdict in run.verdicts()}
    for row in rows_of(run, series):
        episode = episodes.get(row.episode_id or "")
        yield _full(run, row, episode, known) if episode else TaskRow(run.path, row)


def _full(run: RunReader, row: Row, episode: Episode, known: dict[str, Verdict]) -> TaskRow:
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
        row=row,
        task=task_of(run, episode),
        episode=episode,
        verdict=verdict,
        submission=run.submission(submission_hash) if submission_hash else None,
        verdicts=verdicts,
        transcript=said,
    )
