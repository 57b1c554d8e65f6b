"""Files written whole or not at all, and the operating system's refusals told in one line."""

import contextlib
import errno
import os
import tempfile
from pathlib import Path

from warpsmith.errors import InfrastructureError

_HINTS = {
    errno.ENOSPC: "free some space, or choose another folder",
    errno.EDQUOT: "the disk quota is used up; free some space, or choose another folder",
    errno.EROFS: "the file system is read-only; choose another folder",
    errno.EACCES: "choose a folder that you may write to",
    errno.EPERM: "choose a folder that you may write to",
}


def refused(action: str, path: Path, error: OSError) -> InfrastructureError:
    """The error for a file operation that the system refused: `cannot ACTION PATH: REASON`."""
    reason = error.strerror or type(error).__name__
    hint = _HINTS.get(error.errno or 0)
    return InfrastructureError(f"cannot {action} {path}: {reason}", hint=hint)


def make_folder(path: Path) -> Path:
    """Creates `path` and its parents; an existing folder is fine. Raises InfrastructureError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise refused("create the folder", path, error) from error
    return path


def sync_folder(path: Path) -> None:
    """Makes a rename or creation inside `path` survive a power cut, where the file system can."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # some network and FUSE file systems refuse to sync a folder; the file itself is synced already
        with contextlib.suppress(OSError):
            os.fsync(fd)
    finally:
        os.close(fd)


def write_atomic(path: Path, data: str | bytes) -> None:
    """Writes `data` (text as UTF-8) so that `path` holds either its old content or all of the new.

    The file gets the permissions that the umask gives. Raises InfrastructureError where the system refuses
    (disk full, read-only, no permission, a missing folder).
    """
    raw = data.encode() if isinstance(data, str) else data
    temporary: str | None = None
    try:
        fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=".tmp")
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, 0o666 & ~_umask())
            file.write(raw)
            file.flush()
            os.fsync(fd)
        os.rename(temporary, path)
        temporary = None
        sync_folder(path.parent)
    except OSError as error:
        raise refused("write", path, error) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _umask() -> int:
    """The process's umask, read without changing it (os.umask would, for every thread)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("Umask:"):
            return int(line.split()[1], 8)
    return 0o022
