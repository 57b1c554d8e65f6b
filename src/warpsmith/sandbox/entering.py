"""A sandbox that stays for a process forked elsewhere, which enters it and becomes what was made for it.

A program that takes seconds to load can then be loaded once, outside, and forked into a fresh sandbox for each use.
The sandbox is made as always, by its own command with `stays`, around `MODEL`: a shell that is started as the program
would be, waits until it was looked at, and ends. Who enters takes everything from it: namespaces, root and working
folder, user, limits and capabilities; where afterwards the kernel does not say the same of both, it ends. Only the
standard library: a process that is to be forked imports this.
"""

import contextlib
import ctypes
import fcntl
import os
import resource
import select
import signal
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

MODEL = ("sh", "-c", "echo >&0; read -r seen; echo >&0")
"""Its stdin, and the sandbox's, is the second of `ends`. It speaks again once it was looked at."""
_NAMESPACES = ("mnt", "pid", "net", "ipc", "uts")
_GET_USER_NAMESPACE = 0xB701
"""NS_GET_USERNS, ioctl_ns(2)."""
_SET_DUMPABLE, _DROP_BOUNDING, _SET_NO_NEW_PRIVS, _AMBIENT, _CLEAR_AMBIENT = 4, 24, 38, 47, 4
_CAPABILITY_VERSION = 0x20080522
_SAME = frozenset(
    "Uid Gid Groups CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp Seccomp_filters Umask".split()
)
"""Lines of /proc/PID/status that must be equal in the end."""
_USER = frozenset(("Uid", "Gid", "Groups"))


class CannotEnterError(Exception):
    """The sandbox is gone, or this process could not become what runs in it."""


@dataclass(frozen=True)
class Place:
    """What is known of the model from outside."""

    namespaces: tuple[int, ...]
    owner: int | None
    """The user namespace that owns the others, where this process is not in it."""
    user: int | None
    """The model's own user namespace, where it is another one still."""
    output: int
    """What the model prints to, opened anew."""
    cwd: str
    status: dict[str, str]
    limits: dict[str, tuple[int, int]]
    first_to_go: str


def ends() -> tuple[socket.socket, socket.socket]:
    """The end for who enters, and the sandbox's stdin."""
    ours, theirs = socket.socketpair()
    # before anything is said: who said it is noted as it is sent
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return ours, theirs


def find(end: socket.socket) -> Place:
    """The place that the model at the socket's other end shows, once it stands; the model is gone then.

    Raises CannotEnterError where it cannot be had.
    """
    pid = _speaker(end)
    try:
        handle = os.pidfd_open(pid)
        place = _look(pid)
        end.send(b"\n")
        # what has ended between its word and the look may have left its number to a stranger
        if _speaker(end) != pid:
            raise CannotEnterError("the sandbox's model is another one")
        select.select([handle], [], [])
        os.close(handle)
    except OSError as error:
        raise CannotEnterError(f"the sandbox cannot be entered: {error}") from error
    return place


def _speaker(end: socket.socket) -> int:
    """Who says the next word, a process id as this process sees it."""
    data, notes, _, _ = end.recvmsg(1, socket.CMSG_SPACE(struct.calcsize("3i")))
    for level, kind, value in notes:
        if data and (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            return struct.unpack("3i", value)[0]
    raise CannotEnterError("the sandbox ended before it stood")


def _look(pid: int) -> Place:
    own = os.stat("/proc/self/ns/user").st_ino
    opened = tuple(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in _NAMESPACES)
    owner = fcntl.ioctl(opened[0], _GET_USER_NAMESPACE)
    user = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    owns, lives = os.fstat(owner).st_ino, os.fstat(user).st_ino
    return Place(
        namespaces=opened,
        owner=None if owns == own else owner,
        user=None if lives == owns else user,
        # 1 may still be what its word was sent on
        output=os.open(f"/proc/{pid}/fd/2", os.O_WRONLY | os.O_CLOEXEC),
        cwd=os.readlink(f"/proc/{pid}/cwd"),
        status=_status(str(pid)),
        limits=_limits(str(pid)),
        first_to_go=Path(f"/proc/{pid}/oom_score_adj").read_text(),
    )


def enter(place: Place, end: socket.socket) -> None:
    """Forks twice into the place, and returns only in the program, which `become` is still to make.

    This process itself ends here. The first that it forks stays as the program's parent, in the sandbox with the
    rights that built it, and tells the sandbox by `end` how the program ended. For a process of one thread that
    shares nothing with others.
    """
    for fd in (place.owner, *place.namespaces):
        if fd is not None:
            _call("setns", fd, 0)
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if program := os.fork():
        _keep(program, end)


def become(place: Place) -> None:
    """Takes the model's user, limits and capabilities, for good. Raises CannotEnterError where they differ then."""
    if place.user is not None:
        _call("setns", place.user, 0)
    # as in the sandboxes: not everyone may say so
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(place.first_to_go)
    for number, values in enumerate(place.limits.values()):
        resource.setrlimit(number, values)
    os.umask(int(place.status["Umask"], 8))
    os.chdir(place.cwd)
    _drop(place.status, change_user=place.owner is None)
    # a change of user makes a process's own /proc entries root's
    _call("prctl", _SET_DUMPABLE, 1, 0, 0, 0)
    mine = _status("self") | _limits("self")
    told = place.status | place.limits
    if place.owner is not None:
        # told in numbers of another user namespace; in one's own nobody can become another user
        told = {key: value for key, value in told.items() if key not in _USER}
    other = sorted(key for key in told if mine.get(key) != told[key])
    if other:
        raise CannotEnterError(f"not as the sandbox is: {', '.join(other)}")


def _keep(program: int, end: socket.socket) -> NoReturn:
    status = 137
    try:
        mine = end.fileno()
        os.closerange(0, mine)
        os.closerange(mine + 1, 1 << 16)
        code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
        status = code if code >= 0 else 128 - code
        end.send(f"{status}\n".encode())
    finally:
        os._exit(0)


def _status(pid: str) -> dict[str, str]:
    lines = (line.partition(":") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {name: value.strip() for name, _, value in lines if name in _SAME}


def _limits(pid: str) -> dict[str, tuple[int, int]]:
    """All, in the order of their numbers. prlimit(2) would need a capability that root in a container lacks."""
    found = {}
    for line in Path(f"/proc/{pid}/limits").read_text().splitlines()[1:]:
        soft, hard = (-1 if word == "unlimited" else int(word) for word in line[26:].split()[:2])
        found[line[:26].strip()] = (soft, hard)
    return found


def _drop(status: dict[str, str], *, change_user: bool) -> None:
    """No capabilities now or later, and the model's user."""
    for number in range(64):
        # beyond the last that this kernel knows
        with contextlib.suppress(OSError):
            _call("prctl", _DROP_BOUNDING, number, 0, 0, 0)
    _call("prctl", _AMBIENT, _CLEAR_AMBIENT, 0, 0, 0)
    if change_user:
        group, user = (int(status[name].split()[0]) for name in ("Gid", "Uid"))
        os.setgroups([int(word) for word in status["Groups"].split()])
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
    header = struct.pack("Ii", _CAPABILITY_VERSION, 0)
    _call("capset", header, bytes(24))
    _call("prctl", _SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _call(name: str, *arguments: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
