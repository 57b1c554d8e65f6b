"""Several files of a user's: a folder of them, or a list of paths."""

from collections.abc import Callable
from pathlib import Path

from warpsmith.errors import TaskUnreadableError
from warpsmith.tasks.user_file import decode, load_task
from warpsmith.types import Task

_LIST_HINT = "write one path or spec a line; # begins a comment"


def load_folder(path: str) -> list[Task]:
    """Every `.py` file of a folder and of those below it, by path; names are paths without the suffix.

    Files and folders that begin with `_` or `.` are passed over. Raises TaskUnreadableError as a single file does.
    """
    root = Path(path)
    if not root.is_dir():
        raise TaskUnreadableError(f"{path} is not a folder", hint="give a folder of task files")
    files = [file for file in sorted(root.rglob("*.py")) if not _hidden(file.relative_to(root))]
    if not files:
        raise TaskUnreadableError(f"{path} holds no .py file", hint="give a folder of task files")
    names = [file.relative_to(root).with_suffix("").as_posix() for file in files]
    return [
        load_task(file).model_copy(update={"name": name}) for file, name in zip(files, names, strict=True)
    ]


def load_list(path: str, load_all: Callable[[str], list[Task]]) -> list[Task]:
    """What a text file names, one path or spec a line, relative to the file's folder; `load_all` reads each."""
    try:
        text = decode(Path(path).read_bytes(), path)
    except OSError as error:
        raise TaskUnreadableError(f"cannot read {path}: {error.strerror}", hint=_LIST_HINT) from error
    lines = [line.partition(" #")[0].strip() for line in text.splitlines()]
    specs = [line for line in lines if line and not line.startswith("#")]
    if not specs:
        raise TaskUnreadableError(f"{path} names no task", hint=_LIST_HINT)
    return [task for spec in specs for task in load_all(_beside(spec, Path(path).parent))]


def _beside(spec: str, folder: Path) -> str:
    word, colon, rest = spec.rpartition(":")
    return f"{word}{colon}{folder / rest}" if not rest.startswith("hub") else spec


def _hidden(path: Path) -> bool:
    return any(part.startswith(("_", ".")) for part in path.parts)
