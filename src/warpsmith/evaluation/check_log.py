"""Checks of a set of tasks in one JSONL file: one row a task, appended as it comes, gone on with after a kill."""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import ValidationError

from warpsmith.errors import InfrastructureError, RunLockedError
from warpsmith.store.files import make_folder, refused
from warpsmith.types import Fitness, TaskCheck


def read_checks(path: Path) -> tuple[TaskCheck, ...]:
    """The whole lines of such a file, the latest of each question; needs no lock.

    Raises InfrastructureError where it cannot be read or holds something else.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise refused("read", path, error) from error
    return tuple(_parsed(path, data[: data.rfind(b"\n") + 1]).values())


class CheckLog:
    """`with CheckLog(path) as log`: holds the file alone; a line counts once its newline is on disk.

    Entering raises RunLockedError where another process writes to the file, and InfrastructureError where it cannot
    be opened or holds something else.
    """

    def __init__(self, path: Path):
        self.path = path
        self._rows: dict[str, TaskCheck] = {}

    def __enter__(self) -> Self:
        make_folder(self.path.parent)
        try:
            self._file = self.path.open("ab+")
        except OSError as error:
            raise refused("open", self.path, error) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise RunLockedError(
                f"another process is writing to {self.path}", hint="wait for it, or choose another file"
            ) from error
        try:
            self._read()
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def find(self, question: str) -> TaskCheck | None:
        """The row that answers this question; one that says `infrastructure` answers none."""
        row = self._rows.get(question)
        return row if row is not None and row.fitness is not Fitness.INFRASTRUCTURE else None

    def append(self, row: TaskCheck) -> None:
        """Writes a row durably. Raises InfrastructureError where the system refuses."""
        try:
            self._file.write(row.model_dump_json().encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise refused("write to", self.path, error) from error
        self._rows[row.question] = row

    def _read(self) -> None:
        self._file.seek(0)
        data = self._file.read()
        whole = data.rfind(b"\n") + 1
        self._rows = _parsed(self.path, data[:whole])
        # What a kill tore off never counted, and the next row must not be glued to it.
        self._file.truncate(whole)


def _parsed(path: Path, data: bytes) -> dict[str, TaskCheck]:
    rows = {}
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            row = TaskCheck.model_validate_json(line)
        except ValidationError as error:
            raise InfrastructureError(
                f"{path}, line {number} is not a row of a check", hint="choose another file"
            ) from error
        rows[row.question] = row
    return rows
