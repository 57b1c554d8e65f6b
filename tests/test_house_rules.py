"""The limits that keep the code readable, held for every file of the package."""

import ast
from pathlib import Path

import warpsmith

ROOT = Path(warpsmith.__file__).parent
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 80
SOURCES = [path for path in sorted(ROOT.rglob("*")) if path.suffix in {".py", ".h", ".inc", ".cu", ".cpp"}]


def test_files_are_short() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in SOURCES}
    assert lengths and {name: n for name, n in lengths.items() if n > MAX_FILE_LINES} == {}


def test_functions_are_short() -> None:
    too_long = {}
    for path in (path for path in SOURCES if path.suffix == ".py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = node.end_lineno - node.lineno + 1
                if lines > MAX_FUNCTION_LINES:
                    too_long[f"{path.relative_to(ROOT)}:{node.name}"] = lines
    assert too_long == {}
