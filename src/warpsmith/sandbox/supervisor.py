"""Runs one command and outlives none of its descendants. Started as a script: `supervisor.py FD -- ARGV…`.

It is the subreaper of everything that the command starts, so a grandchild that left its session and lost its
parent is still found. The command's end, and the end of whoever holds the other end of the socket FD, both
mean: kill every descendant, then go. Its last words on the socket are the command's wait status as decimal text.

Only the standard library, and little of it: the script is started with `-I -S` for every job.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys

PR_SET_CHILD_SUBREAPER = 36
CANNOT_RUN = 127
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> None:
    """Never returns."""
    control = int(sys.argv[1])
    os.set_inheritable(control, False)
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    child = _start(sys.argv[3:])
    _let_go(keep=(control, wake_read, wake_write))
    status = _watch(child, control, wake_read)
    _kill_all()
    # it fails where nobody listens any more
    with contextlib.suppress(OSError):
        os.write(control, str(status).encode())
    os._exit(0)


def _start(argv: list[str]) -> int:
    child = os.fork()
    if child:
        return child
    # what is ignored here, by Python or by what started it would stay ignored in the program
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        # some are the C library's own
        with contextlib.suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    try:
        os.execve(argv[0], argv, _environment())
    except OSError as error:
        os.write(2, f"cannot run {argv[0]}: {error.strerror}\n".encode())
    os._exit(CANNOT_RUN)


def _let_go(keep: tuple[int, ...]) -> None:
    """Closes what belongs to the command: held here too, the other ends would wait for this process as well."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in keep:
            # the listing's own descriptor is closed by now
            with contextlib.suppress(OSError):
                os.close(int(name))
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)


def _environment() -> dict[bytes, bytes]:
    """The environment as it was handed over: Python adds LC_CTYPE to its own in the C locale."""
    with open("/proc/self/environ", "rb") as file:
        pairs = (entry.partition(b"=") for entry in file.read().split(b"\0") if entry)
        return {name: value for name, _, value in pairs}


def _watch(child: int, control: int, wake: int) -> int:
    """Waits until the command has ended or must end; its wait status (SIGKILL's where it must)."""
    poller = select.poll()
    poller.register(control, select.POLLIN | select.POLLHUP)
    poller.register(wake, select.POLLIN)
    while True:
        for fd, _ in poller.poll():
            if fd == control:
                return signal.SIGKILL
            os.read(wake, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == child:
                return status
            if pid == 0:
                break


def _kill_all() -> None:
    """Kills descendants until none is left: the orphans of the killed become children of this process."""
    while True:
        # stopped first, so that what is being killed cannot fork faster than it dies
        family = _descendants(os.getpid())
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in family:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        try:
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


def _descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # the name in brackets may hold anything; behind the last bracket stand state and parent
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    found, todo = [], [root]
    while todo:
        for pid in children.get(todo.pop(), ()):
            found.append(pid)
            todo.append(pid)
    return found


if __name__ == "__main__":
    main()
