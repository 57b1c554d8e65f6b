"""A content-addressed store of files: published whole by one rename, checked by hash at every use."""

import contextlib
import errno
import fcntl
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from warpsmith.errors import InfrastructureError
from warpsmith.store.files import refused
from warpsmith.types import KernelResources, Record, sha256_hex

_STALE_S = 3600.0
_LOW_SPACE_BYTES = 32 << 20


class Manifest(Record):
    """What an entry holds (path → SHA-256) and what building it said."""

    files: dict[str, str]
    log: str = ""
    kernels: tuple[KernelResources, ...] = ()


@dataclass(frozen=True)
class Entry:
    """A published entry whose files are as they were written."""

    files: Path
    manifest: Manifest


class Cache:
    """Entries under `root/KIND/xx/KEY/`: a folder `files` and `manifest.json`.

    Reading writes nothing, so a read-only cache serves what it has. No lock file outlives a process.
    """

    def __init__(self, root: Path):
        self.root = root

    def lookup(self, kind: str, key: str) -> Entry | None:
        """The entry, or None where there is none or it is damaged: a file missing, changed or added."""
        place = self._place(kind, key)
        try:
            stored = json.loads((place / "manifest.json").read_bytes())
            manifest = Manifest.model_validate(stored["manifest"])
            intact = stored["hash"] == manifest.content_hash and _hashes(place / "files") == manifest.files
        except (OSError, ValueError, KeyError, TypeError, ValidationError):
            return None
        return Entry(place / "files", manifest) if intact else None

    @contextlib.contextmanager
    def workspace(self) -> Iterator[Path]:
        """A temporary folder in the cache, gone afterwards; a killed process's is swept an hour later.

        Raises InfrastructureError where the system refuses to write, there or in the body.
        """
        parent = self.root / "tmp"
        folder = parent / uuid.uuid4().hex
        try:
            parent.mkdir(parents=True, exist_ok=True)
            _sweep(parent)
            folder.mkdir()
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                # the kernel drops this lock when the process ends, however it ends
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)
        except OSError as error:
            raise self._refused(error) from error

    def publish(
        self, kind: str, key: str, files: Path, log: str = "", kernels: tuple[KernelResources, ...] = ()
    ) -> Entry:
        """Moves the folder `files` (of this cache's workspace) in as an entry.

        Another process's intact entry of the same key is kept instead; a damaged one is replaced.
        """
        manifest = Manifest(files=_hashes(files), log=log, kernels=kernels)
        staged = files.parent / f"entry-{uuid.uuid4().hex}"
        staged.mkdir()
        text = json.dumps({"hash": manifest.content_hash, "manifest": manifest.model_dump(mode="json")})
        (staged / "manifest.json").write_text(text)
        files.rename(staged / "files")
        place = self._place(kind, key)
        place.parent.mkdir(parents=True, exist_ok=True)
        for _ in range(16):
            try:
                staged.rename(place)
                return Entry(place / "files", manifest)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise
            if (existing := self.lookup(kind, key)) is not None:
                return existing
            # another process may replace it at the same moment
            with contextlib.suppress(FileNotFoundError):
                place.rename(files.parent / f"damaged-{uuid.uuid4().hex}")
        raise InfrastructureError(
            f"cannot publish into {place.parent}: the entry keeps changing",
            hint="give each run its own WARPSMITH_CACHE",
        )

    def check_space(self) -> None:
        """Raises InfrastructureError where the disk is nearly full: a failed compile then proves nothing."""
        status = os.statvfs(self.root)
        if status.f_bavail * status.f_frsize < _LOW_SPACE_BYTES or (status.f_files and not status.f_favail):
            raise self._refused(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    def _place(self, kind: str, key: str) -> Path:
        return self.root / kind / key[:2] / key

    def _refused(self, error: OSError) -> InfrastructureError:
        told = refused("build in the cache folder", self.root, error)
        return InfrastructureError(str(told), hint=told.hint or "set WARPSMITH_CACHE to another folder")


def _hashes(folder: Path) -> dict[str, str]:
    """Relative path → SHA-256 of every file below `folder`. Raises OSError, ValueError."""
    hashes: dict[str, str] = {}
    folder.stat()
    for at, _, names in os.walk(folder):
        for name in names:
            path = Path(at, name)
            if path.is_symlink():
                raise ValueError(f"{path} is a link")
            hashes[path.relative_to(folder).as_posix()] = sha256_hex(path.read_bytes())
    return dict(sorted(hashes.items()))


def _sweep(parent: Path) -> None:
    """Removes workspaces whose process is gone."""
    for folder in parent.iterdir():
        with contextlib.suppress(OSError):
            # a fresh one may be between its making and its lock
            if time.time() - folder.stat().st_mtime < _STALE_S:
                continue
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
