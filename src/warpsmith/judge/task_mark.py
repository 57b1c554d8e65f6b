"""Whose fault it is that a referee ended: it notes in a file of its job when the task's own code runs.

What ends the process then (a segmentation fault, `os._exit`) is the task's doing; at any other time it is ours.
"""

import functools
import mmap
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from warpsmith.errors import TaskError, TaskRefusedError, TaskUnsupportedError
from warpsmith.types import JobOutcome, JobResult

_NAME = "in_task"
_BYTES = 64
_NOTHING = b" " * _BYTES


def lay(folder: Path) -> None:
    """Asks whoever runs the task of this folder to leave marks."""
    (folder / _NAME).write_bytes(_NOTHING)


@contextmanager
def marked(task: Path, step: str) -> Iterator[None]:
    """Marks the body as a step of the own code of the task in this file, where its folder asks for marks."""
    try:
        memory = _mapped(task)
    except FileNotFoundError:
        memory = bytearray(_BYTES)
    memory[:] = step.encode()[:_BYTES].ljust(_BYTES)
    try:
        yield
    finally:
        memory[:] = _NOTHING


def fault(folder: Path, result: JobResult) -> TaskError | None:
    """The task's fault in a process that ended so; None where it was none, or nobody can tell."""
    path = folder / _NAME
    step = path.read_text().strip() if result.outcome is JobOutcome.CRASHED and path.exists() else ""
    if not step:
        return None
    if result.signal == signal.SIGKILL:
        return TaskUnsupportedError(
            f"{step} was killed, most likely for want of memory", hint="make the task smaller"
        )
    how = f"exit status {result.exit_code}" if result.signal is None else signal.Signals(result.signal).name
    return TaskRefusedError(f"the task's own code ended the judge's process in {step} ({how})")


@functools.cache
def _mapped(task: Path) -> mmap.mmap:
    """The mark file's memory, which outlives this process. Raises FileNotFoundError where no marks were asked for.

    Steps come by the thousand: opening the file for each took 0.15 ms.
    """
    with task.with_name(_NAME).open("r+b") as file:
        return mmap.mmap(file.fileno(), _BYTES)
