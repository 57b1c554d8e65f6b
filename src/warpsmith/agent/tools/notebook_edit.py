"""NotebookEdit."""

import secrets
from enum import StrEnum
from typing import Any

from pydantic import Field

from warpsmith.agent import notebook
from warpsmith.agent.base import Answer, say
from warpsmith.agent.context import MAX_FILE_BYTES, ToolContext
from warpsmith.agent.failures import ToolError
from warpsmith.types.base import Record


class CellType(StrEnum):
    """What a cell holds."""

    CODE = "code"
    MARKDOWN = "markdown"


class EditMode(StrEnum):
    """What happens to a cell."""

    REPLACE = "replace"
    INSERT = "insert"
    DELETE = "delete"


class NotebookEditArguments(Record):
    """Arguments of NotebookEdit."""

    notebook_path: str = Field(description="The .ipynb file, absolute or relative to the workspace.")
    new_source: str = Field(description="The cell's new text; not used to delete.")
    cell_id: str | None = Field(
        None,
        description="The cell's id as Read shows it. With insert: the cell to insert behind (none: on top).",
    )
    cell_type: CellType | None = Field(None, description="Needed to insert.")
    edit_mode: EditMode = Field(EditMode.REPLACE, description="replace (default), insert or delete.")


class NotebookEdit:
    """Replaces, inserts or deletes a cell."""

    name = "NotebookEdit"
    arguments = NotebookEditArguments
    description = """\
Replaces, inserts or deletes one cell of a Jupyter notebook (.ipynb), which must have been read with Read.

- cell_id is what Read shows as the cell's id. Replacing code clears the cell's outputs.
- insert puts a new cell behind cell_id, or on top without one, and needs cell_type."""

    def run(self, arguments: NotebookEditArguments, context: ToolContext) -> Answer:
        """Raises ToolError, the file untouched."""
        path = arguments.notebook_path
        if not path.endswith(".ipynb"):
            raise ToolError(f"{path} is not a notebook (.ipynb): use Edit")
        with context.editing:
            data, real = context.workspace.read(path, MAX_FILE_BYTES)
            context.require_known(path, real, data)
            content = notebook.parse(data, path)
            said = _change(content, arguments)
            new = notebook.dump(content)
            context.workspace.write(real, new)
            context.note(real, new)
        return say(f"{path}: {said}")


def _change(content: dict[str, Any], arguments: NotebookEditArguments) -> str:
    cells = content["cells"]
    mode = arguments.edit_mode
    if mode is EditMode.INSERT:
        at = 0 if arguments.cell_id is None else _index(cells, arguments.cell_id) + 1
        if arguments.cell_type is None:
            raise ToolError("insert needs cell_type: code or markdown")
        cell = {"cell_type": arguments.cell_type.value, "metadata": {}, "source": arguments.new_source}
        minor = content.get("nbformat_minor")
        if isinstance(minor, int) and minor >= 5:
            cell["id"] = secrets.token_hex(4)
        _shape(cell)
        cells.insert(at, cell)
        return f"cell {notebook.cell_name(cell, at)} inserted"
    if arguments.cell_id is None:
        raise ToolError(f"{mode.value} needs cell_id: Read shows the cells' ids")
    at = _index(cells, arguments.cell_id)
    if mode is EditMode.DELETE:
        del cells[at]
        return f"cell {arguments.cell_id} deleted"
    cell = cells[at]
    cell["source"] = arguments.new_source
    if arguments.cell_type is not None:
        cell["cell_type"] = arguments.cell_type.value
    _shape(cell)
    return f"cell {arguments.cell_id} replaced"


def _shape(cell: dict[str, Any]) -> None:
    """The keys that the format asks of a cell of its type, without results of older text."""
    if cell.get("cell_type") == CellType.CODE:
        cell["outputs"], cell["execution_count"] = [], None
    else:
        cell.pop("outputs", None)
        cell.pop("execution_count", None)


def _index(cells: list[dict[str, Any]], name: str) -> int:
    names = [notebook.cell_name(cell, index) for index, cell in enumerate(cells)]
    if name not in names:
        raise ToolError(f"no cell {name!r}: the cells are {', '.join(names[:50]) or 'none'}")
    return names.index(name)
