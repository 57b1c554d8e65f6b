"""Read."""

import os

from pydantic import Field

from warpsmith.agent.base import Answer, image, say
from warpsmith.agent.context import MAX_FILE_BYTES, ToolContext
from warpsmith.agent.failures import ToolError
from warpsmith.agent.listing import MAX_LINE, MAX_TEXT, Lines, numbered
from warpsmith.agent.notebook import blocks, parse
from warpsmith.types.base import Record

MAX_LINES = 2000
MAX_IMAGE_BYTES = 5 << 20
_SNIFFED = 8192


class ReadArguments(Record):
    """Arguments of Read."""

    file_path: str = Field(description="The file, absolute or relative to the workspace.")
    offset: int = Field(1, ge=0, description="The first line to read, counted from 1 (of a notebook: cell).")
    limit: int = Field(MAX_LINES, ge=1, description="How many lines to read (of a notebook: cells).")


class Read:
    """A text file with line numbers, an image, or a notebook's cells."""

    name = "Read"
    arguments = ReadArguments
    description = f"""\
Reads a file of the workspace.

- Text comes with line numbers, as `cat -n` prints it: number, tab, line. The number and tab are not in the file.
- Without offset and limit the first {MAX_LINES} lines come, at most {MAX_TEXT} characters; lines are cut behind
  {MAX_LINE} characters. The answer says where to go on.
- Images (PNG, JPEG, GIF, WebP) come as images, notebooks (.ipynb) as cells with their outputs.
- Other binary files and folders cannot be read: use Bash (file, xxd, ls).
- A file must be read before Edit, MultiEdit, Write or NotebookEdit may change it."""

    def run(self, arguments: ReadArguments, context: ToolContext) -> Answer:
        """Raises ToolError where there is nothing to show."""
        path, first = arguments.file_path, max(1, arguments.offset)
        with context.workspace.open(path) as (fd, info, real):
            start = os.pread(fd, _SNIFFED, 0)
            kind = image_type(start)
            if kind is not None:
                if info.st_size > MAX_IMAGE_BYTES:
                    raise ToolError(
                        f"{path} is an image of {info.st_size} bytes: make it smaller than {MAX_IMAGE_BYTES}"
                    )
                data = _all(fd, MAX_IMAGE_BYTES)
                context.note(real, data)
                return Answer(content=(image(data, kind),))
            if b"\0" in start:
                raise ToolError(f"{path} is a binary file of {info.st_size} bytes: use file or xxd in Bash")
            if info.st_size <= MAX_FILE_BYTES:
                data = _all(fd, MAX_FILE_BYTES)
                context.note(real, data)
                if path.endswith(".ipynb"):
                    cells = tuple(blocks(parse(data, path), first, arguments.limit))
                    return Answer(content=cells) if cells else say(f"{path} has no cell {first}")
            lines = Lines(fd, first, arguments.limit)
        return say(_shown(lines, path, first))


def image_type(start: bytes) -> str | None:
    """The media type of an image by its first bytes, None where it is none that models take."""
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if start.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if start.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return "image/webp"
    return None


def _all(fd: int, limit: int) -> bytes:
    data = bytearray()
    while len(data) < limit and (chunk := os.pread(fd, limit - len(data), len(data))):
        data += chunk
    return bytes(data)


def _shown(lines: Lines, path: str, first: int) -> str:
    if lines.total == 0:
        return f"[{path} is empty]"
    if not lines.lines:
        return f"[{path} has only {lines.total} lines]"
    notes = []
    if not lines.complete:
        notes.append(f"[more lines follow: go on with offset {first + len(lines.lines)}]")
    if lines.replaced:
        notes.append("[some bytes are not UTF-8 and are shown as \ufffd]")
    return "\n".join([numbered(lines.lines, first), *notes])
