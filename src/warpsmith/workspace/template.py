"""The folder that an agent works in: the task, a start, and scripts that ask the judge."""

import ast
import io
import os
import shlex
import sys
import tokenize
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from warpsmith.store.files import refused
from warpsmith.types import Task
from warpsmith.workspace.materialize import REFERENCE_FILE
from warpsmith.workspace.submission import MODEL_FILE

CONTROL = ".warpsmith"
"""Folder of the socket and of the programs that the workflow names; hidden, so no part of a submission."""
SOCKET = "judge.sock"
KERNELS = "kernels"
_PROGRAMS = f"{CONTROL}/bin"
_PYTHON = "/usr/bin/python3"
_DATA = Path(__file__).with_name("template")


@cache
def scripts() -> Mapping[str, str]:
    """Relative path -> text of the scripts."""
    found = {
        path.relative_to(_DATA).as_posix(): path.read_text("utf-8")
        for path in sorted(_DATA.rglob("*"))
        if path.is_file() and path.suffix != ".pyc"
    }
    # packages leave out hidden folders
    return {name.replace("programs/", _PROGRAMS + "/", 1): text for name, text in found.items()}


def fixed_files(task: Task, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Relative path -> text of what must stay as it is: the task, the scripts, and `more`."""
    return {**(more or {}), **scripts(), REFERENCE_FILE: task.code}


def is_program(path: str) -> bool:
    """Whether a fixed file is started by its name."""
    return path.startswith(_PROGRAMS + "/") or path.endswith(".sh")


def lay_out(task: Task, folder: Path, *, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Fills an empty or new `folder`; the fixed files. An existing `model_new.py` is kept.

    Only for a folder that nothing untrusted works in yet. Raises InfrastructureError where writing fails.
    """
    fixed = fixed_files(task, more)
    try:
        (folder / KERNELS).mkdir(parents=True, exist_ok=True)
        for name, text in fixed.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            path.chmod(0o755 if is_program(name) else 0o644)
        if not (folder / MODEL_FILE).exists():
            (folder / MODEL_FILE).write_text(starter(task.code), "utf-8")
        _write_python(folder / _PROGRAMS)
    except OSError as error:
        raise refused("write into", folder, error) from error
    return fixed


def environment(folder: Path) -> dict[str, str]:
    """What commands in the workspace need in their environment, so that the workflow's commands are found."""
    usual = ("/usr/local/cuda/bin", "/usr/local/bin", "/usr/bin", "/bin")
    return {"PATH": ":".join((str(folder / _PROGRAMS), *usual)), "PYTHONDONTWRITEBYTECODE": "1"}


def starter(code: str) -> str:
    """The reference as `ModelNew`, without the functions that give inputs: correct, and no faster than it.

    A task that is no Python is returned as it is: nobody can start from it.
    """
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return code
    lines = code.splitlines(keepends=True)
    for node in reversed(tree.body):
        if isinstance(node, ast.FunctionDef) and node.name in ("get_inputs", "get_init_inputs"):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            del lines[first - 1 : node.end_lineno]
    return _renamed("".join(lines).rstrip() + "\n", {"Model": "ModelNew"})


def _renamed(code: str, names: Mapping[str, str]) -> str:
    lines = code.splitlines(keepends=True)
    found = [
        token
        for token in tokenize.generate_tokens(io.StringIO(code).readline)
        if token.type == tokenize.NAME and token.string in names
    ]
    for token in reversed(found):
        row, column = token.start[0] - 1, token.start[1]
        rest = lines[row][column + len(token.string) :]
        lines[row] = lines[row][:column] + names[token.string] + rest
    return "".join(lines)


def _write_python(folder: Path) -> None:
    """A `python3` where the system has none: this interpreter, which the sandbox then has to show."""
    program = sys.executable if needs_own_python() else _PYTHON
    for name in ("python", "python3"):
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec {shlex.quote(program)} "$@"\n')
        path.chmod(0o755)


def needs_own_python() -> bool:
    """Whether the workspace's `python3` is this interpreter, for want of one of the system's."""
    return not os.path.exists(_PYTHON)
