"""The result folder: what a person takes away from a run."""

import os
import shutil
import tempfile
from pathlib import Path

from warpsmith.errors import InfrastructureError, UsageError
from warpsmith.report.markdown import EpisodeRecords, render
from warpsmith.report.usage import USE, USE_FILE
from warpsmith.store import RunReader, write_atomic
from warpsmith.store.files import refused
from warpsmith.types import Episode, Submission, Task
from warpsmith.workspace.materialize import REFERENCE_FILE, write_files

REPORT_FILE = "report.md"
VERDICT_FILE = "verdict.json"
SOLUTION_FOLDER = "solution"


def collect(run: RunReader, episode: Episode) -> EpisodeRecords:
    """Everything that an episode refers to. Raises InfrastructureError where the store lacks some of it."""
    scores = [episode.final_verdict_hash, episode.answer_verdict_hash]
    hashes = [*(turn.verdict_hash for turn in episode.turns), *scores]
    verdicts = {h: v for h in hashes if h and (v := run.verdict(h)) is not None}
    if missing := [h for h in hashes if h and h not in verdicts]:
        raise InfrastructureError(
            f"{run.path} lacks verdict {missing[0][:12]} of its episode", hint="run again into another folder"
        )
    record = run.blob(episode.task_record_hash) if episode.task_record_hash else None
    if record is None:
        raise InfrastructureError(
            f"{run.path} lacks the task of its episode", hint="run again into another folder"
        )
    best = episode.best_submission_hash
    return EpisodeRecords(
        episode=episode,
        task=Task.model_validate_json(record),
        verdicts=verdicts,
        submission=run.submission(best) if best else None,
    )


def last_episode(run: RunReader) -> Episode:
    """The episode finished last; UsageError where none is."""
    episodes = run.episodes()
    if not episodes:
        raise UsageError(f"{run.path} holds no finished episode", hint="run the same command again to go on")
    return episodes[-1]


def write_result(run: RunReader, out: Path, episode: Episode | None = None) -> EpisodeRecords:
    """Writes solution/, verdict.json, report.md, use.py and model.py into `out`, each whole or not at all.

    Without a passed submission only report.md, model.py and any verdict are written. Raises
    InfrastructureError where writing fails.
    """
    records = collect(run, episode or last_episode(run))
    write_atomic(out / REFERENCE_FILE, records.task.code)
    if records.submission is not None:
        _replace_folder(out / SOLUTION_FOLDER, records.submission)
        write_atomic(out / USE_FILE, USE)
    if records.final is not None:
        write_atomic(out / VERDICT_FILE, records.final.model_dump_json(indent=2) + "\n")
    write_atomic(out / REPORT_FILE, render(records))
    return records


def _replace_folder(path: Path, submission: Submission) -> None:
    """Swaps the folder's whole content for the submission's files."""
    try:
        new = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
        try:
            write_files(dict(submission.files), new)
            new.chmod(0o755)
            old = new.with_name(new.name + "-old")
            if path.exists():
                os.rename(path, old)
            os.rename(new, path)
            shutil.rmtree(old, ignore_errors=True)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    except OSError as error:
        raise refused("write", path, error) from error
