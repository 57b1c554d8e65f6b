"""Synthesized sets as parquet: ours, and any other of the columns `ops`, `data_source` and `code`."""

import json
from pathlib import Path
from typing import Any

from warpsmith.errors import TaskUnreadableError
from warpsmith.tasks.parquet import read_parquet
from warpsmith.tasks.user_file import check_source
from warpsmith.types import Task, TaskSource, sha256_hex

_COLUMNS = ("ops", "data_source", "code")
_FILTERS = ("band", "split", "measured", "data_source", "name")
BANDS = ("easy", "medium", "hard", "expert")
"""Of a set that says no bands, by its number of operators."""


def load_spec(spec: str) -> list[Task]:
    """`PATH`; `PATH#10`, the tenth row; `PATH#FILTER,…`, such as `#band=easy|medium,split=train,measured=true`."""
    path, mark, selection = spec.partition("#")
    if not mark:
        return load(Path(path))
    if selection.isdigit():
        return load(Path(path), place=int(selection))
    wanted: dict[str, set[str]] = {}
    for part in selection.split(","):
        name, equals, values = part.partition("=")
        if not equals or name not in _FILTERS or not values:
            raise TaskUnreadableError(
                f"#{part} selects nothing",
                hint=f"write #N, or NAME=VALUE with a name of: {', '.join(_FILTERS)}",
            )
        wanted[name] = set(values.split("|"))
    return load(Path(path), wanted=wanted)


def load(path: Path, *, wanted: dict[str, set[str]] | None = None, place: int | None = None) -> list[Task]:
    """Tasks in the file's order; `problem_id` is the row's number from 1, `revision` a hash over the whole set.

    Raises TaskUnreadableError for a file that is no such set, a row that is no task, and filters that leave nothing.
    """
    rows = read_parquet(path, _COLUMNS, (*_FILTERS, "fingerprint"))
    revision = "rows-" + sha256_hex(json.dumps([row["code"] for row in rows]))[:12]
    tasks = []
    for number, row in enumerate(rows, start=1):
        if (place is not None and number != place) or not _wanted(row, wanted or {}):
            continue
        check_source(row["code"], f"row {number} of {path}")
        ours = "fingerprint" in row
        tasks.append(Task(
            name=row.get("name") or f"{row['data_source']}_{number}", code=row["code"], revision=revision,
            source=TaskSource.SYNTHESIZED if ours else TaskSource.OPS6K, problem_id=number,
        ))  # fmt: skip
    if not tasks:
        raise TaskUnreadableError(
            f"{path} holds no row of that kind", hint="choose another band, split or row"
        )
    return tasks


def _wanted(row: dict[str, Any], wanted: dict[str, set[str]]) -> bool:
    for name, values in wanted.items():
        if name == "band" and "band" not in row:
            if _counted(row["data_source"]) not in values:
                return False
            continue
        if name not in row:
            raise TaskUnreadableError(f"the set has no column {name}", hint="it can be selected by #N only")
        value = row[name]
        if (str(value).lower() if isinstance(value, bool) else str(value)) not in values:
            return False
    return True


def _counted(data_source: str) -> str:
    """The band by the number in `torch#3`; a source without one is one operator of a library."""
    number = data_source.rpartition("#")[2]
    operators = int(number) if number.isdecimal() and len(number) < 4 else 1
    return BANDS[min(max(operators, 1), len(BANDS)) - 1]
