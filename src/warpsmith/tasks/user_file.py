"""A user's own Python file in KernelBench's form."""

import ast
import warnings
from collections.abc import Iterable
from pathlib import Path

from warpsmith.errors import TaskUnreadableError
from warpsmith.types import Task, TaskSource

MAX_BYTES = 4 * 1024 * 1024
REQUIRED_NAMES = ("Model", "get_inputs", "get_init_inputs")

_FORM_HINT = "a task file defines class Model, get_inputs() and get_init_inputs()"


def load_task(path: str | Path) -> Task:
    """Reads a task file; its name is the file's stem. Nothing of it is executed.

    Raises TaskUnreadableError with one line: missing, a folder, unreadable, empty, too large, not text,
    not Python, or without `Model`, `get_inputs`, `get_init_inputs`.
    """
    path = Path(path)
    code = read_source(path)
    check_source(code, str(path))
    return Task(name=path.stem, code=code, source=TaskSource.USER_FILE)


def read_source(path: Path) -> str:
    """The text of a Python file, checked to be a regular, non-empty UTF-8 file of bounded size."""
    try:
        if not path.exists():
            raise TaskUnreadableError(f"no such file: {path}", hint="give the path of a Python file")
        if path.is_dir():
            raise TaskUnreadableError(f"{path} is a folder", hint="give the Python file inside it")
        if not path.is_file():
            raise TaskUnreadableError(f"{path} is not a regular file", hint="give the path of a Python file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = "check the path and its permissions"
        raise TaskUnreadableError(f"cannot read {path}: {reason}", hint=hint) from error
    if len(data) > MAX_BYTES:
        raise TaskUnreadableError(
            f"{path} is larger than {MAX_BYTES // 1024**2} MiB", hint="a task is source text, not data"
        )
    if not data.strip():
        raise TaskUnreadableError(f"{path} is empty", hint=_FORM_HINT)
    return decode(data, str(path))


def decode(data: bytes, origin: str) -> str:
    """UTF-8 text of `data`; TaskUnreadableError for binary content."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TaskUnreadableError(f"{origin} is not UTF-8 text", hint=_FORM_HINT) from error
    if "\0" in text:
        raise TaskUnreadableError(f"{origin} is a binary file", hint=_FORM_HINT)
    return text


def check_source(code: str, origin: str) -> None:
    """Checks that `code` parses and defines the three names; TaskUnreadableError names what is missing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
    except SyntaxError as error:
        raise TaskUnreadableError(
            f"{origin}, line {error.lineno}: not valid Python: {error.msg}", hint="correct the line"
        ) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise TaskUnreadableError(f"{origin} cannot be parsed as Python: {error}", hint=_FORM_HINT) from error
    names = set(bound_names(tree.body))
    missing = [name for name in REQUIRED_NAMES if name not in names and "*" not in names]
    if missing:
        raise TaskUnreadableError(f"{origin} does not define {', '.join(missing)}", hint=_FORM_HINT)


def bound_names(body: Iterable[ast.stmt]) -> Iterable[str]:
    """Names that a module's top level may bind, branches included; `*` for a star import."""
    for node in body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                for target in targets:
                    yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
                yield name
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from (alias.asname or alias.name for alias in aliases)
            case ast.If() | ast.Try() | ast.With() | ast.For() | ast.While():
                for field in ("body", "orelse", "finalbody"):
                    yield from bound_names(getattr(node, field, []))
                for handler in getattr(node, "handlers", []):
                    yield from bound_names(handler.body)
            case _:
                pass
