"""Exclusive use of a GPU: a lock file a GPU, freed by the kernel when its holder dies, however it dies."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from warpsmith.errors import InfrastructureError
from warpsmith.gpu.devices import GpuInfo

LEASES = Path("/tmp/warpsmith-leases")
"""One folder for all users of the machine, so that two of them never measure on one GPU."""

_POLL_S = 0.05


@contextmanager
def lease_gpu(
    gpus: Sequence[GpuInfo],
    timeout_s: float,
    folder: Path = LEASES,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[GpuInfo]:
    """Holds the first of `gpus` that nobody else holds, waiting for one at most `timeout_s` seconds.

    Raises InfrastructureError where there is no GPU, none came free, the wait was `cancelled`, or the lock cannot be
    made.
    """
    if not gpus:
        raise no_gpu()
    _make(folder)
    deadline = time.monotonic() + timeout_s
    while True:
        for gpu in gpus:
            fd = _try_lock(folder / f"{gpu.uuid}.lock")
            if fd is not None:
                try:
                    yield gpu
                finally:
                    os.close(fd)
                return
        if cancelled():
            raise InfrastructureError("the job was cancelled before a GPU came free")
        if time.monotonic() >= deadline:
            raise all_leased(timeout_s)
        time.sleep(_POLL_S)


def try_lease(gpu: GpuInfo | None, folder: Path = LEASES) -> tuple[bool, int | None]:
    """Whether `gpu` can be had now, and what to `release` then; no GPU always can.

    Raises InfrastructureError where the lock cannot be made.
    """
    if gpu is None:
        return True, None
    _make(folder)
    lease = _try_lock(folder / f"{gpu.uuid}.lock")
    return lease is not None, lease


def release(lease: int | None) -> None:
    """Gives a GPU back to the machine's other users."""
    if lease is not None:
        os.close(lease)


def no_gpu() -> InfrastructureError:
    """The error where there is none."""
    return InfrastructureError(
        "no NVIDIA GPU was found", hint="use --device sim, or see `warpsmith doctor` for what is missing"
    )


def all_leased(timeout_s: float) -> InfrastructureError:
    """The error where none came free."""
    return InfrastructureError(
        f"every GPU is in use by another run; waited {timeout_s:.0f} s",
        hint="wait until it has ended, or stop it",
    )


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if folder.stat().st_uid == os.geteuid():
            folder.chmod(0o1777)
    except OSError as error:
        raise InfrastructureError(f"cannot make the lease folder {folder}: {error.strerror}") from error


def _try_lock(path: Path) -> int | None:
    """An open descriptor that holds the lock, None where another holds it."""
    try:
        fd = _open(path)
    except OSError as error:
        raise InfrastructureError(f"cannot lease a GPU with {path}: {error.strerror}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def _open(path: Path) -> int:
    # without O_CREAT first: the kernel refuses that for another user's file in a folder such as /tmp
    try:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        fd = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        os.fchmod(fd, 0o644)
        return fd
