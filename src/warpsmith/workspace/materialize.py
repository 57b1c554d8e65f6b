"""Lays a task and a submission out as files."""

from pathlib import Path

from warpsmith.store.files import refused
from warpsmith.types import Submission, Task

REFERENCE_FILE = "model.py"
PROTECTED_FILES = frozenset(
    {REFERENCE_FILE, "utils/compile.py", "utils/verification.py", "utils/profiling.py"}
)
"""Files of a workspace that are never part of a submission: the reference, and scripts that ask the judge."""


def materialize(task: Task, submission: Submission | None, folder: Path) -> Path:
    """Writes the task as `model.py`, and the submission's files beside it. Returns `folder`.

    Existing files of the same names are replaced. Raises InfrastructureError where writing fails.
    """
    files = dict(submission.files) if submission else {}
    files[REFERENCE_FILE] = task.code
    write_files(files, folder)
    return folder


def write_files(files: dict[str, str], folder: Path) -> None:
    """Writes relative path -> text below `folder`, making folders as needed."""
    try:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    except OSError as error:
        raise refused("write into", folder, error) from error
