"""CUDA-Agent-Ops-6K and sets of its form: parquet with `ops` (a list), `data_source` (as `torch#2`) and `code`."""

import json
import re
from pathlib import Path
from typing import Any

from warpsmith.errors import TaskUnreadableError
from warpsmith.tasks.parquet import read_hub, read_parquet
from warpsmith.tasks.user_file import check_source
from warpsmith.types import Task, TaskSource, sha256_hex

HUB = "BytedTsinghua-SIA/CUDA-Agent-Ops-6K"
COLUMNS = ("ops", "data_source", "code")
_HINT = "write #FIRST-LAST or #NUMBER; rows count from 0"
_SELECTION = re.compile(r"(\d+)(?:-(\d+))?")
_NAME_CHARACTERS = 60


def load_spec(spec: str) -> list[Task]:
    """`PATH.parquet`, `hub` or `hub@REVISION`, with `#NUMBER` or `#FIRST-LAST` behind it for a part; see `load`."""
    place, mark, selection = spec.partition("#")
    first, last = _range(selection) if mark else (0, None)
    if place == "hub" or place.startswith("hub@"):
        revision = place.partition("@")[2] or None
        return tasks_of(read_hub(HUB, revision, COLUMNS), HUB, first, last)
    return tasks_of(read_parquet(Path(place), COLUMNS), place, first, last)


def tasks_of(rows: list[dict[str, Any]], origin: str, first: int = 0, last: int | None = None) -> list[Task]:
    """Tasks of the rows from `first` to `last`, both included; `revision` is a hash over the whole set.

    A task's number is its row. Raises TaskUnreadableError where a row is malformed or nothing is selected.
    """
    for number, row in enumerate(rows):
        _check(row, f"row {number} of {origin}")
    revision = "rows-" + sha256_hex(json.dumps([[r["data_source"], r["code"]] for r in rows]))[:12]
    chosen = list(enumerate(rows))[first : None if last is None else last + 1]
    if not chosen:
        raise TaskUnreadableError(f"{origin} has {len(rows)} rows, none of them selected", hint=_HINT)
    for number, row in chosen:
        check_source(row["code"], f"row {number} of {origin}")
    return [
        Task(
            name=_name(number, row["ops"]), code=row["code"], source=TaskSource.OPS6K,
            revision=revision, problem_id=number,
        )
        for number, row in chosen
    ]  # fmt: skip


def _range(selection: str) -> tuple[int, int]:
    match = _SELECTION.fullmatch(selection)
    if match is None:
        raise TaskUnreadableError(f"#{selection} selects nothing", hint=_HINT)
    return int(match[1]), int(match[2] or match[1])


def _check(row: dict[str, Any], origin: str) -> None:
    ops = row["ops"]
    right = isinstance(ops, list) and all(isinstance(op, str) for op in ops)
    if not (right and isinstance(row["data_source"], str) and isinstance(row["code"], str)):
        raise TaskUnreadableError(
            f"{origin}: ops, data_source or code is of the wrong type",
            hint="ops is a list of names, the others are text",
        )


def _name(number: int, ops: list[str]) -> str:
    """`00012_linear_relu`, of the operators' last names."""
    words = [re.sub(r"\W+", "", op.rpartition(".")[2]).lower() for op in ops]
    return "_".join([f"{number:05d}", *filter(None, words)])[:_NAME_CHARACTERS].rstrip("_")
