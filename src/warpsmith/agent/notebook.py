"""Jupyter notebooks: cells in and out of the file's JSON."""

import base64
import binascii
import json
from typing import Any

from warpsmith.agent.base import Block, TextBlock, image
from warpsmith.agent.failures import ToolError
from warpsmith.agent.listing import MAX_TEXT, cut

_MAX_OUTPUT = 10_000
_MAX_IMAGES = 20
_MAX_IMAGE_BYTES = 1 << 20
_IMAGES = ("image/png", "image/jpeg")


def parse(data: bytes, path: str) -> dict[str, Any]:
    """The notebook. Raises ToolError where it is none of format 4 (cells at the top)."""
    try:
        notebook = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ToolError(f"{path} is not a notebook: its JSON is broken; look at it with Bash") from error
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise ToolError(f"{path} is not a notebook of format 4: it has no list of cells")
    return notebook


def dump(notebook: dict[str, Any]) -> bytes:
    """The file's bytes, as Jupyter writes them."""
    return (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")


def cell_name(cell: dict[str, Any], index: int) -> str:
    """What Read calls the cell and NotebookEdit takes: its id, else `cell-N`."""
    return str(cell.get("id") or f"cell-{index}")


def blocks(notebook: dict[str, Any], first: int, count: int) -> list[Block]:
    """Cells `first` (from 1) on as blocks: the source, and outputs as text and images; bounded."""
    shown: list[Block] = []
    text_room, image_room = MAX_TEXT, _MAX_IMAGES
    for index, cell in list(enumerate(notebook["cells"]))[first - 1 : first - 1 + count]:
        kind = str(cell.get("cell_type", "code"))
        text = f'<cell id="{cell_name(cell, index)}" type="{kind}">\n{source(cell)}\n</cell>'
        if text_room <= 0:
            shown.append(TextBlock(text=f"[more cells follow: go on with offset {index + 1}]"))
            break
        images: list[Block] = []
        outputs = cell.get("outputs")
        for output in outputs if isinstance(outputs, list) else []:
            if isinstance(output, dict):
                said, pictures = _output(output)
                text += f"\n<output>\n{cut(said, _MAX_OUTPUT)}\n</output>" if said else ""
                images += pictures
        text = cut(text)
        left_out = len(images) - image_room
        if left_out > 0:
            text += f"\n[{left_out} images left out: read this cell alone]"
        images = images[: max(0, image_room)]
        shown += [TextBlock(text=text), *images]
        text_room -= len(text)
        image_room -= len(images)
    return shown


def source(cell: dict[str, Any]) -> str:
    """The text of a cell."""
    return _joined(cell.get("source", ""))


def _output(output: dict[str, Any]) -> tuple[str, list[Block]]:
    kind = output.get("output_type")
    if kind == "stream":
        return _joined(output.get("text", "")), []
    if kind == "error":
        trace = output.get("traceback")
        lines = "\n".join(str(line) for line in trace) if isinstance(trace, list) else ""
        return f"{output.get('ename')}: {output.get('evalue')}\n{lines}", []
    data = output.get("data")
    if not isinstance(data, dict):
        return "", []
    images: list[Block] = []
    for name in _IMAGES:
        if name in data:
            try:
                raw = base64.b64decode(_joined(data[name]), validate=False)
            except binascii.Error:
                continue
            if len(raw) <= _MAX_IMAGE_BYTES:
                images.append(image(raw, name))
    return _joined(data.get("text/plain", "")), images


def _joined(text: object) -> str:
    return "".join(str(part) for part in text) if isinstance(text, list) else str(text)
