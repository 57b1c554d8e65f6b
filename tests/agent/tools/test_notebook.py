"""Notebooks in Read and NotebookEdit."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tests.agent.conftest import Caller

from warpsmith.agent.tools import ImageBlock, TextBlock

NOTEBOOK: dict[str, Any] = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {"kernelspec": {"name": "python3"}},
    "cells": [
        {"id": "intro", "cell_type": "markdown", "metadata": {}, "source": ["# Title\n", "text"]},
        {
            "id": "code",
            "cell_type": "code",
            "metadata": {},
            "execution_count": 3,
            "source": "print(1)",
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["1\n"]},
                {"output_type": "display_data", "data": {"image/png": base64.b64encode(b"png").decode()}},
                {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": ["line 1"]},
            ],
        },
    ],
}


@pytest.fixture
def path(root: Path) -> Path:
    path = root / "n.ipynb"
    path.write_text(json.dumps(NOTEBOOK))
    return path


def test_read_shows_cells(ask: Caller, path: Path) -> None:
    first, second, picture = ask("Read", file_path="n.ipynb").content
    assert first == TextBlock(text='<cell id="intro" type="markdown">\n# Title\ntext\n</cell>')
    assert isinstance(second, TextBlock) and isinstance(picture, ImageBlock)
    assert second.text == (
        '<cell id="code" type="code">\nprint(1)\n</cell>\n<output>\n1\n\n</output>\n'
        "<output>\nValueError: no\nline 1\n</output>"
    )
    assert base64.b64decode(picture.source.data) == b"png"
    assert ask("Read", file_path="n.ipynb", offset=1, limit=1).content == (first,)
    assert ask("Read", file_path="n.ipynb", offset=5).text == "n.ipynb has no cell 5"


def test_read_is_bounded(ask: Caller, root: Path) -> None:
    pictures = [{"output_type": "display_data", "data": {"image/png": "AAAA"}}] * 30
    cells = [{"cell_type": "code", "source": "x" * 20_000, "outputs": pictures}] * 5
    (root / "big.ipynb").write_text(json.dumps({"cells": cells}))
    answer = ask("Read", file_path="big.ipynb")
    assert sum(isinstance(block, ImageBlock) for block in answer.content) == 20
    assert answer.text.endswith(
        "[30 images left out: read this cell alone]\n[more cells follow: go on with offset 4]"
    )


def test_replace_insert_delete(ask: Caller, path: Path) -> None:
    def edit(**arguments: object) -> str:
        return ask("NotebookEdit", notebook_path="n.ipynb", **arguments).text

    assert "has not been read" in edit(cell_id="code", new_source="x")
    ask("Read", file_path="n.ipynb")
    assert edit(cell_id="code", new_source="print(2)") == "n.ipynb: cell code replaced"
    assert edit(edit_mode="insert", cell_id="intro", cell_type="markdown", new_source="é").endswith(
        "inserted"
    )
    assert edit(edit_mode="insert", cell_type="code", new_source="top").endswith("inserted")
    assert edit(edit_mode="delete", cell_id="intro", new_source="") == "n.ipynb: cell intro deleted"
    notebook = json.loads(path.read_text())
    assert [(cell["cell_type"], cell["source"]) for cell in notebook["cells"]] == [
        ("code", "top"),
        ("markdown", "é"),
        ("code", "print(2)"),
    ]
    assert notebook["cells"][2] == {
        **NOTEBOOK["cells"][1],
        "source": "print(2)",
        "outputs": [],
        "execution_count": None,
    }
    assert "outputs" not in notebook["cells"][1] and len(notebook["cells"][0]["id"]) == 8
    assert notebook["metadata"] == NOTEBOOK["metadata"]


def test_errors(ask: Caller, path: Path, root: Path) -> None:
    ask("Read", file_path="n.ipynb")
    for arguments, answer in [
        ({"cell_id": "none", "new_source": ""}, "no cell 'none': the cells are intro, code"),
        ({"new_source": ""}, "replace needs cell_id: Read shows the cells' ids"),
        ({"edit_mode": "insert", "new_source": ""}, "insert needs cell_type: code or markdown"),
    ]:
        assert ask("NotebookEdit", notebook_path="n.ipynb", **arguments).text == answer
    assert "use Edit" in ask("NotebookEdit", notebook_path="n.py", new_source="").text
    assert json.loads(path.read_text()) == NOTEBOOK
    path.write_text("{}")
    assert "changed since" in ask("NotebookEdit", notebook_path="n.ipynb", cell_id="code", new_source="").text
    for text in ("{}", "{", '{"cells": [1]}', "[" * 100_000, "[]", "\xff"):
        path.write_bytes(text.encode("latin-1"))
        answer = ask("Read", file_path="n.ipynb")
        assert answer.is_error and "is not a notebook" in answer.text
    path.write_text(
        '{"cells": [{"source": 5, "outputs": 7}, {"outputs": [{"data": {"image/png": "!"}}, 3]}]}'
    )
    assert '<cell id="cell-0" type="code">\n5\n</cell>' in ask("Read", file_path="n.ipynb").text
