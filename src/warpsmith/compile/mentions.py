"""Which of the names that decide a build a submission's Python code uses. Comments and docstrings do not count."""

import ast
import re
from collections.abc import Mapping

_PATH = re.compile(r"\w+(?:\.\w+)*")


def names_in(files: Mapping[str, str]) -> frozenset[str]:
    """Every identifier in the `.py` files, and in strings that are nothing but a name or a dotted path.

    A file that is no Python adds nothing: running it will say why.
    """
    found: set[str] = set()
    for path, text in files.items():
        if path.endswith(".py"):
            try:
                tree = ast.parse(text)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue
            found.update(part for node in ast.walk(tree) for name in _names(node) for part in name.split("."))
    return frozenset(found)


def _names(node: ast.AST) -> list[str]:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return [name]
        case ast.alias(name=name):
            return [name]
        case ast.ImportFrom(module=str(name)):
            return [name]
        case ast.Constant(value=str(text)) if len(text) < 200 and _PATH.fullmatch(text):
            return [text]
        case _:
            return []
