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

_HARDLY_BYTES = 64 * 1024


def refused(action: str, path: Path, error: OSError) -> InfrastructureError:
    """The error for a file operation that the system refused: `cannot ACTION PATH: REASON`."""
    number = error.errno
    if number is None and disk_full(path):
        # shutil.Error, of many files at once, names no cause
        number = errno.ENOSPC
    reason = error.strerror or (os.strerror(number) if number else type(error).__name__)
    return InfrastructureError(f"cannot {action} {path}: {reason}", hint=_HINTS.get(number or 0))


def disk_full(path: Path) -> bool:
    """Whether the disk that holds `path`, or would, has hardly a byte or a file left."""
    there = next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())
    status = os.statvfs(there)
    # file systems that hold nothing, and some over a network, count 0 of all
    no_files = status.f_files > 0 and status.f_favail == 0
    no_bytes = status.f_blocks > 0 and status.f_bavail * status.f_frsize < _HARDLY_BYTES
    return no_files or no_bytes


def make_folder(path: Path) -> Path:
    """Creates `path` and its parents; an existing folder is fine. Raises InfrastructureError."""
    for last in (False, False, True):
        try:
            path.mkdir(parents=True, exist_ok=True)
            break
        except OSError as error:
            # a parent that another process or thread removed in between is made again
            if last or not isinstance(error, FileNotFoundError):
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
