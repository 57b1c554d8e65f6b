"""Reads a submission: a folder with `model_new.py`, or one Python file."""

import os
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from warpsmith.errors import SubmissionUnreadableError
from warpsmith.types import Submission
from warpsmith.types.submission import MAX_FILES, MAX_TOTAL_CHARS
from warpsmith.workspace.materialize import PROTECTED_FILES

MODEL_FILE = "model_new.py"
SETTINGS_FILE = "warpsmith.toml"
SOURCE_SUFFIXES = frozenset({".py", ".cu", ".cuh", ".h", ".hh", ".hpp", ".inl", ".inc", ".cpp", ".cc"})
IGNORED_FOLDERS = frozenset({"__pycache__", "build", "node_modules"})

_HINT = f"a submission is a folder with {MODEL_FILE}, or one .py file that defines ModelNew"


def load_submission(path: str | Path) -> Submission:
    """Reads the source files of a submission; build outputs, hidden files and the reference stay out.

    Raises SubmissionUnreadableError with one line: missing, no `model_new.py`, too large, not text, or a
    link that leads out of the folder.
    """
    path = Path(path)
    if not path.exists():
        raise SubmissionUnreadableError(f"no such submission: {path}", hint=_HINT)
    if path.is_dir():
        # first, since of a wrong folder nothing else matters
        if not (path / MODEL_FILE).is_file():
            raise SubmissionUnreadableError(f"no {MODEL_FILE} in {path}", hint=_HINT)
        files = _folder_files(path)
    elif path.is_file() and path.suffix == ".py":
        files = {MODEL_FILE: _read(path)}
    else:
        raise SubmissionUnreadableError(f"{path} is neither a folder nor a .py file", hint=_HINT)
    try:
        return Submission(files=files)
    except ValidationError as error:
        message = str(error.errors()[0]["msg"])
        raise SubmissionUnreadableError(f"{path}: {message}", hint=_HINT) from error


def _folder_files(root: Path) -> dict[str, str]:
    files: dict[str, str] = {}
    total = 0
    for path in _sources(root):
        name = path.relative_to(root).as_posix()
        if not path.resolve().is_relative_to(root.resolve()):
            raise SubmissionUnreadableError(
                f"{path} is a link that leads out of the submission", hint="put the file itself in the folder"
            )
        files[name] = _read(path)
        total += len(files[name])
        if len(files) > MAX_FILES or total > MAX_TOTAL_CHARS:
            raise SubmissionUnreadableError(
                f"{root} holds more than {MAX_FILES} source files or {MAX_TOTAL_CHARS} characters",
                hint="give the folder of one submission only",
            )
    return files


def _sources(root: Path) -> Iterator[Path]:
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(
            s
            for s in subfolders
            if s not in IGNORED_FOLDERS and not s.startswith(".") and "egg-info" not in s
        )
        for name in sorted(names):
            path = Path(folder, name)
            relative = path.relative_to(root).as_posix()
            if relative == SETTINGS_FILE or (
                path.suffix in SOURCE_SUFFIXES
                and not name.startswith(".")
                and relative not in PROTECTED_FILES
            ):
                yield path


def _read(path: Path) -> str:
    try:
        if not path.is_file():
            raise SubmissionUnreadableError(f"{path} is not a regular file", hint=_HINT)
        with path.open("rb") as file:
            data = file.read(MAX_TOTAL_CHARS + 1)
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SubmissionUnreadableError(f"{path} is not UTF-8 text", hint=_HINT) from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise SubmissionUnreadableError(f"cannot read {path}: {reason}", hint=_HINT) from error
    if len(data) > MAX_TOTAL_CHARS:
        raise SubmissionUnreadableError(f"{path} is too large for a source file", hint=_HINT)
    if "\0" in text:
        raise SubmissionUnreadableError(f"{path} is a binary file", hint=_HINT)
    return text
