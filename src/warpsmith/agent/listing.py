"""Text files as models read them: numbered lines, cut where they are too long."""

import os

MAX_LINE = 2000
MAX_TEXT = 60_000
"""Characters of one answer."""
_CHUNK = 1 << 18


def numbered(lines: list[str], first: int) -> str:
    """Lines as `cat -n` prints them, counted from `first`."""
    return "\n".join(f"{number:>6}\t{_clean(line)}" for number, line in enumerate(lines, first))


def cut(text: str, limit: int = MAX_TEXT) -> str:
    """The text, its middle left out where it is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


class Lines:
    """Lines `first` (from 1) to `first + count - 1` of a descriptor, in memory bounded by what is shown."""

    def __init__(self, fd: int, first: int, count: int):
        self.lines: list[str] = []
        self.total = 0
        """Lines seen; all of the file's where `complete`."""
        self.complete = True
        self.replaced = False
        """Some bytes were no UTF-8."""
        self.room = MAX_TEXT
        self._first, self._last = first, first + count - 1
        with os.fdopen(os.dup(fd), "rb", buffering=_CHUNK) as file:
            file.seek(0)
            while piece := file.readline(4 * MAX_LINE + 4):
                if self.room <= 0 or self.total >= self._last:
                    self.complete = False
                    break
                self.total += 1
                rest = piece
                while not rest.endswith(b"\n") and (rest := file.readline(_CHUNK)):
                    pass
                if self.total >= first:
                    self._add(piece)

    def _add(self, piece: bytes) -> None:
        text = piece.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "surrogateescape")
        if len(text) <= MAX_LINE:
            self.replaced |= any("\udc80" <= char <= "\udcff" for char in text)
        self.lines.append(text)
        self.room -= min(len(text), MAX_LINE) + 8


def _clean(line: str) -> str:
    text = line.encode("utf-8", "surrogateescape").decode("utf-8", "replace").removesuffix("\r")
    return text if len(text) <= MAX_LINE else text[:MAX_LINE] + " [... line cut ...]"
