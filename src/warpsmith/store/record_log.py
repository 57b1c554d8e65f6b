"""Records in one JSONL file: one a line, appended durably as they come, gone on with after a kill."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, TypeVar

from pydantic import ValidationError

from warpsmith.errors import InfrastructureError, RunLockedError
from warpsmith.store.files import make_folder, refused
from warpsmith.types import Record

R = TypeVar("R", bound=Record)


class RecordLog(Generic[R]):
    """`with RecordLog(path, Kind, key) as log`: holds the file alone; a line counts once its newline is on disk.

    Of several records with one key the last counts. Entering raises RunLockedError where another process writes to
    the file, and InfrastructureError where it cannot be opened or holds something else.
    """

    def __init__(self, path: Path, kind: type[R], key: Callable[[R], str]):
        self.path = path
        self._kind, self._key = kind, key
        self._rows: dict[str, R] = {}

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

    def get(self, key: str) -> R | None:
        """The record of this key, None where there is none."""
        return self._rows.get(key)

    def rows(self) -> list[R]:
        """Every record, in the order of their first lines."""
        return list(self._rows.values())

    def append(self, row: R, *, durable: bool = True) -> None:
        """Writes a record; `durable` waits for the disk. Raises InfrastructureError where the system refuses."""
        try:
            self._file.write(row.model_dump_json().encode() + b"\n")
            self._file.flush()
            if durable:
                os.fsync(self._file.fileno())
        except OSError as error:
            raise refused("write to", self.path, error) from error
        self._rows[self._key(row)] = row

    def _read(self) -> None:
        self._file.seek(0)
        data = self._file.read()
        whole = data.rfind(b"\n") + 1
        for number, line in enumerate(data[:whole].splitlines(), start=1):
            try:
                row = self._kind.model_validate_json(line)
            except ValidationError as error:
                raise InfrastructureError(
                    f"{self.path}, line {number} is not a row of this kind", hint="choose another file"
                ) from error
            self._rows[self._key(row)] = row
        # What a kill tore off never counted, and the next row must not be glued to it.
        self._file.truncate(whole)
