"""Replacing text in a file, byte for byte where nothing is replaced."""

from warpsmith.agent.confine import MissingError
from warpsmith.agent.context import MAX_FILE_BYTES, ToolContext
from warpsmith.agent.failures import ToolError
from warpsmith.agent.listing import numbered
from warpsmith.types.base import Record

_SHOWN_AROUND = 4
_MAX_SHOWN = 60


class Replacement(Record):
    """One edit: `old_string` becomes `new_string`."""

    old_string: str
    new_string: str
    replace_all: bool = False


def edit_file(path: str, edits: tuple[Replacement, ...], context: ToolContext) -> str:
    """Applies `edits` in order, all or none; what to tell the model. Raises ToolError, the file untouched."""
    with context.editing:
        if not edits[0].old_string:
            return _make(path, edits, context)
        data, real = context.workspace.read(path, MAX_FILE_BYTES)
        context.require_known(path, real, data)
        if b"\0" in data:
            raise ToolError(f"{path} is a binary file: change it with a program in Bash")
        # bytes that are no UTF-8 survive
        text = data.decode("utf-8", "surrogateescape")
        text, count, at = _apply(text, edits, path)
        return _store(path, text, real, context, f"{count} replaced", at)


def _make(path: str, edits: tuple[Replacement, ...], context: ToolContext) -> str:
    try:
        data, _ = context.workspace.read(path, MAX_FILE_BYTES)
    except MissingError:
        data = b""
    if data:
        raise ToolError(
            f"old_string is empty, which makes a new file, but {path} exists: give the text to replace"
        )
    text, _, at = _apply(edits[0].new_string, edits[1:], path)
    with context.workspace.place(path, make_folders=True) as place:
        context.require_free(path, place.path)
    return _store(path, text, path, context, "made", at)


def _store(path: str, text: str, real: str, context: ToolContext, what: str, at: int) -> str:
    data = text.encode("utf-8", "surrogateescape")
    if len(data) > MAX_FILE_BYTES:
        raise ToolError(f"{path} would be larger than {MAX_FILE_BYTES} bytes: nothing was changed")
    real = context.workspace.write(real, data)
    context.note(real, data)
    return f"{path}: {what}. The lines around the last change:\n{_around(text, at)}"


def _apply(text: str, edits: tuple[Replacement, ...], path: str) -> tuple[str, int, int]:
    """The text after `edits`, how many places changed, and where the last one was."""
    # a file of Windows line ends keeps them, though the model writes plain ones
    windows = text.count("\n") == text.count("\r\n") > 0
    total, at = 0, 0
    for number, edit in enumerate(edits, 1):
        where = f"{path}, edit {number} of {len(edits)}" if len(edits) > 1 else path
        old, new = edit.old_string, edit.new_string
        if windows:
            old, new = (part.replace("\r\n", "\n").replace("\n", "\r\n") for part in (old, new))
        if old == new:
            raise ToolError(f"{where}: old_string and new_string are the same, there is nothing to change")
        if not old:
            raise ToolError(f"{where}: old_string is empty: give the text to replace")
        count = text.count(old)
        if count == 0:
            raise ToolError(f"{where}: old_string is not in the file{_near(text, old)}. Nothing was changed")
        if count > 1 and not edit.replace_all:
            lines = ", ".join(str(line) for line in _lines_of(text, old)[:10])
            raise ToolError(
                f"{where}: old_string is there {count} times (lines {lines}): give more lines around it, or set "
                "replace_all. Nothing was changed"
            )
        if len(text) + count * (len(new) - len(old)) > MAX_FILE_BYTES:
            raise ToolError(
                f"{where}: the file would be larger than {MAX_FILE_BYTES} bytes. Nothing was changed"
            )
        at = text.rfind(old) if edit.replace_all else text.find(old)
        before = text[:at].count(old)
        at += before * (len(new) - len(old))
        text = text.replace(old, new)
        total += count
    return text, total, at


def _lines_of(text: str, old: str) -> list[int]:
    lines, at, line = [], 0, 1
    while len(lines) < 10 and (found := text.find(old, at)) >= 0:
        line += text.count("\n", at, found)
        lines.append(line)
        line += old.count("\n")
        at = found + len(old)
    return lines


def _near(text: str, old: str) -> str:
    """Why it may not be there: what fits but for white space."""
    first = next((line.strip() for line in old.splitlines() if line.strip()), "")
    for number, line in enumerate(text.split("\n"), 1):
        if first and first == line.strip():
            return f"; line {number} is the same but for white space or what follows: compare it with Read"
    return "; it must match exactly, without the line numbers that Read prints"


def _around(text: str, at: int) -> str:
    lines = text.split("\n")
    line = text.count("\n", 0, at)
    first = max(0, line - _SHOWN_AROUND)
    return numbered(lines[first : line + _SHOWN_AROUND + 1][:_MAX_SHOWN], first + 1)
