"""Records of a training set in one file: one JSON line each."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from warpsmith.errors import InfrastructureError
from warpsmith.store.files import write_atomic
from warpsmith.types import Record

R = TypeVar("R", bound=Record)


def write_lines(path: Path, records: Iterable[Record]) -> None:
    """One line each, whole or not at all. Raises InfrastructureError."""
    write_atomic(path, "".join(record.model_dump_json() + "\n" for record in records))


def read_lines(path: Path, kind: type[R]) -> Iterator[R]:
    """What a file holds, one at a time. Raises InfrastructureError where it is damaged."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield kind.model_validate_json(line)
            except ValidationError as error:
                raise InfrastructureError(
                    f"{path} is damaged: line {number} cannot be read", hint="make it again"
                ) from error
