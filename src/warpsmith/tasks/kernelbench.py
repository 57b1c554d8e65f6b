"""KernelBench: rows of level, problem_id, name and code (JSONL, parquet or the hub), or a clone of its repository."""

import json
import re
from pathlib import Path
from typing import Any

from warpsmith.errors import TaskUnreadableError
from warpsmith.tasks.parquet import read_hub, read_parquet
from warpsmith.tasks.user_file import check_source, read_source
from warpsmith.types import Task, TaskSource, sha256_hex

MAX_JSONL_BYTES = 256 * 1024 * 1024

_HINT = "give a clone of KernelBench, or JSON lines with level, problem_id, name and code"
_FILE = re.compile(r"(\d+)_.+\.py")
_SELECTION = re.compile(r"(\d+)(?:/(\d+)(?:-(\d+))?)?")
_COLUMNS = ("level", "problem_id", "name", "code")
HUB = "ScalingIntelligence/KernelBench"


def load_spec(spec: str) -> list[Task]:
    """`PATH`, `hub` or `hub@REVISION`, with a selection behind `#`: levels and problems such as `1,2/3,3/1-9`."""
    place, mark, text = spec.partition("#")
    parts = [_part(part) for part in text.split(",")] if mark else [(None, None, None)]
    rows = _rows(place)
    chosen: dict[str, Task] = {}
    for level, first, last in parts:
        for task in _tasks(rows, place, level, first, last):
            chosen.setdefault(task.content_hash, task)
    return sorted(chosen.values(), key=lambda task: (task.level or 0, task.problem_id or 0))


def load(path: Path, *, level: int | None = None, problem_id: int | None = None) -> list[Task]:
    """Tasks ordered by level and problem; `revision` is a hash over the whole set, whatever its container.

    Raises TaskUnreadableError where the path holds no KernelBench, a row is malformed, or nothing matches.
    """
    return _tasks(_rows(str(path)), str(path), level, problem_id, problem_id)


def _part(text: str) -> tuple[int | None, int | None, int | None]:
    """Level, first and last problem."""
    match = _SELECTION.fullmatch(text.strip())
    if match is None:
        raise TaskUnreadableError(
            f"#{text} selects nothing", hint="write #LEVEL, #LEVEL/PROBLEM or #LEVEL/FIRST-LAST"
        )
    level, first, last = (int(group) if group else None for group in match.groups())
    return level, first, first if last is None else last


def _rows(place: str) -> list[dict[str, Any]]:
    path = Path(place)
    if place == "hub" or place.startswith("hub@"):
        return [
            _checked(row, f"{HUB}, row {number}")
            for number, row in enumerate(read_hub(HUB, place.partition("@")[2] or None, _COLUMNS))
        ]
    if path.is_dir():
        files = sorted(path.rglob("*.parquet"))
        return _parquet_rows(files) if files else _folder_rows(path)
    return _parquet_rows([path]) if path.suffix == ".parquet" else _jsonl_rows(path)


def _parquet_rows(files: list[Path]) -> list[dict[str, Any]]:
    return [
        _checked(row, f"{file}, row {number}")
        for file in files
        for number, row in enumerate(read_parquet(file, _COLUMNS))
    ]


def _tasks(
    rows: list[dict[str, Any]], path: str, level: int | None, first: int | None, last: int | None
) -> list[Task]:
    rows.sort(key=lambda row: (row["level"], row["problem_id"]))
    revision = "rows-" + sha256_hex(json.dumps([[r["level"], r["problem_id"], r["code"]] for r in rows]))[:12]
    chosen = [
        row
        for row in rows
        if level in (None, row["level"]) and (first is None or first <= row["problem_id"] <= last)
    ]
    if not chosen:
        wanted = "(any)" if first is None else str(first) if first == last else f"{first}-{last}"
        raise TaskUnreadableError(f"{path} holds no level {level} problem {wanted}", hint=_HINT)
    for row in chosen:
        check_source(row["code"], f"level {row['level']} problem {row['problem_id']} of {path}")
    return [
        Task(
            name=row["name"],
            code=row["code"],
            source=TaskSource.KERNELBENCH,
            revision=revision,
            level=row["level"],
            problem_id=row["problem_id"],
        )
        for row in chosen
    ]


def _folder_rows(path: Path) -> list[dict[str, Any]]:
    root = path / "KernelBench" if (path / "KernelBench").is_dir() else path
    rows = []
    for folder in sorted(root.glob("level*")):
        level = folder.name.removeprefix("level")
        if not level.isdigit():
            continue
        for file in sorted(folder.glob("*.py")):
            if match := _FILE.fullmatch(file.name):
                row = {"level": int(level), "problem_id": int(match[1])}
                rows.append(row | {"name": file.stem, "code": read_source(file)})
    if not rows:
        raise TaskUnreadableError(f"{path} holds no level*/ID_name.py files", hint=_HINT)
    return rows


def _jsonl_rows(path: Path) -> list[dict[str, Any]]:
    try:
        if path.stat().st_size > MAX_JSONL_BYTES:
            raise TaskUnreadableError(f"{path} is too large to be KernelBench", hint=_HINT)
        lines = path.read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise TaskUnreadableError(f"cannot read {path}: {reason}", hint=_HINT) from error
    rows = [_row(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise TaskUnreadableError(f"{path} is empty", hint=_HINT)
    return rows


def _row(line: str, origin: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise TaskUnreadableError(f"{origin}: not JSON", hint=_HINT) from error
    return _checked(row, origin)


def _checked(row: Any, origin: str) -> dict[str, Any]:
    kinds = {"level": int, "problem_id": int, "name": str, "code": str}
    wrong = [
        key for key, kind in kinds.items() if not isinstance(row, dict) or type(row.get(key)) is not kind
    ]
    if wrong:
        raise TaskUnreadableError(f"{origin}: {', '.join(wrong)} missing or of the wrong type", hint=_HINT)
    return {key: row[key] for key in kinds}
