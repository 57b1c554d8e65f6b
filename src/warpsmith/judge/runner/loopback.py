"""Starts a program where 127.0.0.1 works: `python -I -m warpsmith.judge.runner.loopback PROGRAM ARGUMENTS…`.

ncu and what it watches talk to each other over that address, and some sandboxes give a network without it.
There the program gets a further network namespace, as empty as the one around it, in a user namespace of its own:
only in such a one may it be switched on. Where the system forbids that, the program starts as things are.
"""

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1
"""Of `ioctl` on a network device (netdevice(7))."""
_REQUEST = "16sH14x"


def ensure() -> None:
    """Switches the loopback device on, unless it is. Raises OSError where the system forbids it."""
    if _flags() & _UP:
        return
    user, group = os.getuid(), os.getgid()
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWUSER | _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")
    own = Path("/proc/self")
    (own / "setgroups").write_text("deny")
    (own / "uid_map").write_text(f"{user} {user} 1")
    (own / "gid_map").write_text(f"{group} {group} 1")
    _request(_SET_FLAGS, _flags() | _UP)


def _flags() -> int:
    return struct.unpack(_REQUEST, _request(_GET_FLAGS, 0))[1]


def _request(number: int, flags: int) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        return fcntl.ioctl(any_socket, number, struct.pack(_REQUEST, b"lo", flags))


if __name__ == "__main__":
    with contextlib.suppress(OSError):
        ensure()
    os.execvp(sys.argv[1], sys.argv[1:])
