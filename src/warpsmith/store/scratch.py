"""Scratch folders that outlive nobody: gone when their user is done, and swept where it was killed."""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
import weakref
from pathlib import Path

from warpsmith.store.files import refused

_STALE_S = 3600.0
"""A younger folder may be between its making and its lock."""


class ScratchFolder:
    """A fresh folder `path`, called `PREFIX…`, in `parent` (by default the system's temporary folder).

    It is removed by `remove`, or when this object or its process ends. What a killed process left behind is removed
    by the first that makes a folder of the same prefix an hour later.
    Raises InfrastructureError where the folder cannot be made.
    """

    def __init__(self, prefix: str, parent: Path | None = None):
        parent = parent or Path(tempfile.gettempdir())
        _sweep(parent, prefix)
        try:
            self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            # the kernel drops this lock when the process ends, however it ends
            lock = _lock(self.path)
        except OSError as error:
            raise refused("create a folder in", parent, error) from error
        self._remove = weakref.finalize(self, _remove, self.path, lock)

    def remove(self) -> None:
        """Removes the folder and all in it; a second time does nothing."""
        self._remove()


def _sweep(parent: Path, prefix: str) -> None:
    """Removes this user's folders whose process is gone."""
    for folder in parent.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            made = folder.lstat()
            if made.st_uid == os.getuid() and time.time() - made.st_mtime > _STALE_S:
                _remove(folder, _lock(folder))


def _lock(folder: Path) -> int:
    """A descriptor that holds the folder's lock. Raises OSError where another process does."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


def _remove(folder: Path, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)
