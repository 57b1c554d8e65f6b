"""One writer a folder: a lock that the kernel frees when its holder dies, however it dies."""

import fcntl
import os
from pathlib import Path

from warpsmith.errors import RunLockedError
from warpsmith.store.files import refused


class FolderLock:
    """Exclusive, never waits. The file's content names the holder and is only for people."""

    def __init__(self, folder: Path):
        self._path = folder / "lock"
        self._fd: int | None = None

    def acquire(self) -> None:
        """RunLockedError where another process holds it; InfrastructureError where it cannot be made."""
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise refused("lock", self._path, error) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError as error:
            holder = os.pread(fd, 20, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(fd)
            raise RunLockedError(
                f"{self._path.parent} is being written to by another process (pid {holder})",
                hint="wait until it has ended, or choose another folder",
            ) from error
        except OSError as error:
            os.close(fd)
            raise refused("lock", self._path, error) from error
        self._fd = fd

    def release(self) -> None:
        """Frees the lock; the file stays, since removing it would let two processes hold two files."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            os.close(fd)

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._fd is not None
