"""Task specs: a path to a Python file, or `SOURCE:PATH#SELECTION`."""

from collections.abc import Callable

from warpsmith.errors import UsageError
from warpsmith.tasks import kernelbench, synthesized, user_file
from warpsmith.types import Task

SOURCES: dict[str, Callable[[str], list[Task]]] = {
    "kernelbench": kernelbench.load_spec,
    "synth": synthesized.load_spec,
    "file": lambda path: [user_file.load_task(path)],
}
"""One line a source: the word before the colon, and what reads the rest."""


def load_all(spec: str) -> list[Task]:
    """Every task that `spec` names, in the source's order; at least one.

    `PATH.py` or `file:PATH.py` is one task; `kernelbench:PATH` all of a set, `kernelbench:PATH#1` one level,
    `kernelbench:PATH#1/19` one problem; `synth:SET.parquet#band=easy` the rows
    of a synthesized or published set. Raises TaskUnreadableError.
    """
    word, colon, rest = spec.partition(":")
    if colon and word in SOURCES:
        return SOURCES[word](rest)
    return [user_file.load_task(spec)]


def load(spec: str) -> Task:
    """The one task that `spec` names. Raises TaskUnreadableError, or UsageError where it names several."""
    tasks = load_all(spec)
    if len(tasks) != 1:
        raise UsageError(
            f"{spec} names {len(tasks)} tasks, and one is wanted",
            hint="choose one, such as kernelbench:PATH#1/19",
        )
    return tasks[0]
