"""One page of settings that a judge writes and a simulated process can only read.

A library in that process asks the page at each launch, at an address that both know, and the environment only where
there is no page: what a submission says of itself changes nothing. The page's size and its writers are sealed, and
so is the mapping where the kernel can (Linux 6.10).
"""

import ctypes
import fcntl
import mmap
import os
import struct
from contextlib import suppress

ADDRESS = 0x2000_0000_0000
"""As in `runtime/errors.inc`, with the layout and MAGIC."""
MAGIC = 0x5749_4D31
_LAYOUT = struct.Struct("=IIIII")
_FUTURE_WRITE = 0x0010
_FIXED_NOREPLACE = 0x100000
_MSEAL = 462


class Page:
    """The judge's side; `fd` is for the other side's `enter`."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("warpsmith-settings", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, mmap.PAGESIZE)
        self._memory = mmap.mmap(self.fd, mmap.PAGESIZE)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        try:
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals | _FUTURE_WRITE)
        except OSError:
            # before Linux 5.1
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals)
        self.set()

    def set(
        self, *, order: int = 0, blocks_reversed: bool = False, zeroed: bool = False, disarmed: bool = False
    ) -> None:
        """From the next launch on: order of threads and blocks, zeros in fresh memory, launches that do nothing."""
        self._memory[: _LAYOUT.size] = _LAYOUT.pack(MAGIC, order, blocks_reversed, zeroed, disarmed)

    def close(self) -> None:
        """The other side keeps the last settings."""
        self._memory.close()
        os.close(self.fd)


def enter(fd: int) -> None:
    """Maps the page `fd` read-only where libraries look for it, and closes `fd`. Raises OSError where it cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    flags = mmap.MAP_SHARED | _FIXED_NOREPLACE
    found = libc.mmap(ADDRESS, mmap.PAGESIZE, mmap.PROT_READ, flags, fd, 0)
    os.close(fd)
    if found != ADDRESS:
        raise OSError(ctypes.get_errno(), "the simulator's settings cannot be mapped")
    with suppress(AttributeError):
        libc.syscall(
            ctypes.c_long(_MSEAL), ctypes.c_void_p(ADDRESS), ctypes.c_size_t(mmap.PAGESIZE), ctypes.c_ulong(0)
        )
