"""Rows of the published schema: `ops`, `data_source`, `code`, as parquet or as JSON lines."""

import ast
import json
from pathlib import Path
from typing import Any

from warpsmith.errors import TaskUnreadableError
from warpsmith.tasks.parquet import read_parquet
from warpsmith.types import Record

COLUMNS = ("ops", "data_source", "code")
_HINT = "give a parquet file or JSON lines with the columns ops, data_source and code"
_PARQUET = b"PAR1"


class PublishedRow(Record):
    """One row. `malformed` says what is wrong with it, and is empty for one that can be read."""

    number: int
    """From 1, in the file's order."""
    ops: tuple[str, ...] = ()
    data_source: str = ""
    code: str = ""
    malformed: str = ""

    @property
    def name(self) -> str:
        """`row 17`"""
        return f"row {self.number}"


def read_rows(path: Path) -> list[PublishedRow]:
    """All rows of a file, malformed ones too.

    Raises TaskUnreadableError where it cannot be read, lacks a column or holds no row, MissingExtraError where
    reading parquet needs what is not installed.
    """
    if path.is_dir():
        raise TaskUnreadableError(f"{path} is a folder", hint="give the file inside it")
    try:
        with path.open("rb") as file:
            is_parquet = file.read(len(_PARQUET)) == _PARQUET
        rows = read_parquet(path, COLUMNS) if is_parquet else _lines(path)
    except OSError as error:
        raise TaskUnreadableError(f"cannot read {path}: {error.strerror or error}", hint=_HINT) from error
    if not rows:
        raise TaskUnreadableError(f"{path} holds no rows", hint=_HINT)
    return [_row(number, row) for number, row in enumerate(rows, 1)]


def _lines(path: Path) -> list[Any]:
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except ValueError as error:
        raise TaskUnreadableError(f"{path} is neither parquet nor UTF-8 text", hint=_HINT) from error
    found: list[Any] = []
    for line in filter(str.strip, lines):
        try:
            found.append(json.loads(line))
        except (ValueError, RecursionError):
            found.append("the line is not JSON")
    if found and not any(isinstance(row, dict) and set(COLUMNS) <= set(row) for row in found):
        raise TaskUnreadableError(f"{path} has no row with {', '.join(COLUMNS)}", hint=_HINT)
    return found


def _row(number: int, row: Any) -> PublishedRow:
    if not isinstance(row, dict):
        said = row if isinstance(row, str) else "the line is no object"
        return PublishedRow(number=number, malformed=said)
    ops = _ops(row.get("ops"))
    source, code = row.get("data_source"), row.get("code")
    wrong = [] if ops else ["ops"]
    wrong += [name for name, value in (("data_source", source), ("code", code)) if not isinstance(value, str)]
    return PublishedRow(
        number=number,
        ops=tuple(ops or ()),
        data_source=source if isinstance(source, str) else "",
        code=code if isinstance(code, str) else "",
        malformed=f"{', '.join(wrong)} missing or of the wrong type" if wrong else "",
    )


def _ops(value: Any) -> list[str] | None:
    """Names of a list, or of the text of one: the published file holds text."""
    if isinstance(value, str):
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            value = [part.strip() for part in value.split(",")]
        value = [value] if isinstance(value, str) else value
    if not isinstance(value, list | tuple) or not value:
        return None
    names = [name for name in value if isinstance(name, str) and name.strip()]
    return names if len(names) == len(value) else None
