"""Keeps a workspace from filling the disk."""

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

_EVERY_S = 1.0


def used(root: Path, max_files: int) -> tuple[int, int]:
    """Bytes on disk and number of entries below `root`; counting ends beyond `max_files`.

    What goes meanwhile, `root` itself too, counts as far as it was seen.
    """
    total = entries = 0
    with contextlib.suppress(OSError):
        for _, folders, files, fd in os.fwalk(root):
            for name in (*folders, *files):
                with contextlib.suppress(OSError):
                    total += os.stat(name, dir_fd=fd, follow_symlinks=False).st_blocks * 512
            entries += len(folders) + len(files)
            if entries > max_files:
                break
    return total, entries


class DiskWatch:
    """Looks at `root` each second within `with`; once it holds too much, sets `full` and calls `stop`."""

    def __init__(self, root: Path, max_bytes: int, max_files: int, stop: Callable[[], None]):
        self.full = False
        self._root, self._bytes, self._files = root, max_bytes, max_files
        self._end_all = stop
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="disk", daemon=True)

    def look(self) -> bool:
        """Whether it holds too much now."""
        size, entries = used(self._root, self._files)
        self.full = self.full or size > self._bytes or entries > self._files
        return self.full

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(_EVERY_S):
            if self.look():
                self._end_all()
