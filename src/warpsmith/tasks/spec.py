"""Task specs: a path to a Python file or a folder of them, or `SOURCE:PATH#SELECTION`."""

from collections.abc import Callable
from pathlib import Path

from warpsmith.errors import UsageError
from warpsmith.tasks import kernelbench, ops6k, synthesized, user_file, user_files
from warpsmith.types import Task

SOURCES: dict[str, Callable[[str], list[Task]]] = {
    "kernelbench": kernelbench.load_spec,
    "ops6k": ops6k.load_spec,
    "synth": synthesized.load_spec,
    "file": lambda path: [user_file.load_task(path)],
    "folder": user_files.load_folder,
    "list": lambda path: user_files.load_list(path, load_all),
}
"""One line a source: the word before the colon, and what reads the rest."""


def load_all(spec: str) -> list[Task]:
    """Every task that `spec` names, in the source's order; at least one.

    `PATH.py` or `file:PATH.py` is one task, a folder or `folder:PATH` all task files in it, `list:PATH` what a text
    file names. `kernelbench:PATH` is all of a set, `kernelbench:PATH#1,2` levels, `kernelbench:PATH#1/19,2/1-9`
    problems; `ops6k:PATH.parquet#0-99` rows; `synth:SET.parquet#band=easy` rows of a synthesized set. `hub` for PATH
    is the set's place on the hub. Raises TaskUnreadableError, and MissingExtraError where a set needs a library that
    is not installed.
    """
    word, colon, rest = spec.partition(":")
    if colon and word in SOURCES:
        return SOURCES[word](rest)
    return user_files.load_folder(spec) if Path(spec).is_dir() else [user_file.load_task(spec)]


def load(spec: str) -> Task:
    """The one task that `spec` names. Raises TaskUnreadableError, or UsageError where it names several."""
    if Path(spec).is_dir():
        # one task is wanted: what a folder holds is no question
        return user_file.load_task(spec)
    tasks = load_all(spec)
    if len(tasks) != 1:
        raise UsageError(
            f"{spec} names {len(tasks)} tasks, and one is wanted",
            hint="choose one, such as kernelbench:PATH#1/19",
        )
    return tasks[0]
