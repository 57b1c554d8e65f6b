"""KernelBench: JSONL rows of level, problem_id, name and code, or a clone with `levelN/ID_name.py` files."""

import json
import re
from pathlib import Path
from typing import Any

from warpsmith.errors import TaskUnreadableError
from warpsmith.tasks.user_file import check_source, read_source
from warpsmith.types import Task, TaskSource, sha256_hex

MAX_JSONL_BYTES = 256 * 1024 * 1024

_HINT = "give a clone of KernelBench, or JSON lines with level, problem_id, name and code"
_FILE = re.compile(r"(\d+)_.+\.py")
_SELECTION = re.compile(r"(?P<level>\d+)(/(?P<problem>\d+))?")


def load_spec(spec: str) -> list[Task]:
    """`PATH`, `PATH#LEVEL` or `PATH#LEVEL/PROBLEM`; see `load`."""
    path, mark, selection = spec.partition("#")
    if not mark:
        return load(Path(path))
    match = _SELECTION.fullmatch(selection)
    if match is None:
        raise TaskUnreadableError(f"#{selection} selects nothing", hint="write #LEVEL or #LEVEL/PROBLEM")
    problem = match["problem"]
    return load(Path(path), level=int(match["level"]), problem_id=int(problem) if problem else None)


def load(path: Path, *, level: int | None = None, problem_id: int | None = None) -> list[Task]:
    """Tasks ordered by level and problem; `revision` is a hash over the whole set, whatever its container.

    Raises TaskUnreadableError where the path holds no KernelBench, a row is malformed, or nothing matches.
    """
    rows = _folder_rows(path) if path.is_dir() else _jsonl_rows(path)
    rows.sort(key=lambda row: (row["level"], row["problem_id"]))
    revision = "rows-" + sha256_hex(json.dumps([[r["level"], r["problem_id"], r["code"]] for r in rows]))[:12]
    chosen = [
        row for row in rows if level in (None, row["level"]) and problem_id in (None, row["problem_id"])
    ]
    if not chosen:
        raise TaskUnreadableError(
            f"{path} holds no level {level} problem {problem_id or '(any)'}", hint=_HINT
        )
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
    except ValueError as error:
        raise TaskUnreadableError(f"{origin}: not JSON", hint=_HINT) from error
    kinds = {"level": int, "problem_id": int, "name": str, "code": str}
    wrong = [
        key for key, kind in kinds.items() if not isinstance(row, dict) or type(row.get(key)) is not kind
    ]
    if wrong:
        raise TaskUnreadableError(f"{origin}: {', '.join(wrong)} missing or of the wrong type", hint=_HINT)
    return {key: row[key] for key in kinds}
