"""Starts a container and hands it this process's descriptors: `docker_wrapper.py PLAN SUPERVISOR ARGV…`.

Ends as the program inside ends; where this process is killed, so is all that runs inside. Only the standard library:
the script is started with `-I -S` for every command.
"""

import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import time

_FOLDER = "/.warpsmith"
_NO_CONTAINER = 125
_START_S = 120.0
_ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/nonexistent"}

# The first process inside. Its child supervises the program; it keeps the output's pipe open until that has ended.
_FIRST = """\
import array, json, os, socket, struct
control = socket.socket(socket.AF_UNIX)
control.connect("{folder}/socket")
def read(size):
    data = b""
    while len(data) < size:
        piece = control.recv(size - len(data))
        if not piece: os._exit(1)
        data += piece
    return data
size = struct.calcsize("i")
head, more, _, _ = control.recvmsg(4, socket.CMSG_SPACE(253 * size))
got = array.array("i")
for _, _, part in more: got.frombytes(part[: len(part) - len(part) % size])
plan = json.loads(read(struct.unpack("!I", head)[0]))
top = max([255, *plan["fds"]]) + 1
moved = [os.dup2(fd, top + at) for at, fd in enumerate([*got, control.fileno(), got[plan["fds"].index(1)]])]
os.closerange(3, top)
child = os.fork()
if child == 0:
    for fd, number in zip(moved, plan["fds"]): os.dup2(fd, number)
    control = moved[-2]
    for fd in moved[:-2] + moved[-1:]: os.close(fd)
    os.set_inheritable(control, True)
    os.chdir(plan["cwd"])
    words = [plan["python"], "-I", "-S", "-c", plan["supervisor"], str(control), "--"]
    os.execve(plan["python"], [*words, "/bin/sh", "-c", 'exec "$@"', "sh", *plan["argv"]], plan["env"])
for fd in moved[:-1]: os.close(fd)
null = os.open(os.devnull, os.O_RDWR)
for fd in (0, 1, 2): os.dup2(null, fd)
while os.waitpid(-1, 0)[0] != child: pass
os._exit(0)
"""


def main() -> int:
    """The program's exit code, 128 + signal where one ended it; 125 where no container starts."""
    plan = json.loads(sys.argv[1])
    with open(sys.argv[2]) as file:
        supervisor = file.read()
    fds = [0, 1, 2, *sorted(fd for fd in map(int, os.listdir("/proc/self/fd")) if fd > 2 and _inherited(fd))]
    said = {
        "fds": fds,
        "argv": sys.argv[3:],
        "env": _environment(),
        "cwd": plan["cwd"],
        "python": plan["python"],
        "supervisor": supervisor,
    }
    with tempfile.TemporaryDirectory(prefix="warpsmith-docker-") as folder:
        os.chmod(folder, 0o755)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"{folder}/socket")
            os.chmod(f"{folder}/socket", 0o666)
            listener.listen(1)
            started = _start(plan, folder)
            connection = _accepted(listener, started)
    if connection is None:
        return _NO_CONTAINER
    with connection:
        data = json.dumps(said).encode()
        socket.send_fds(connection, [len(data).to_bytes(4, "big")], fds)
        connection.sendall(data)
        for fd in fds[3:]:
            os.close(fd)
        # the output is theirs: this process would keep it open
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (1, 2):
            os.dup2(null, fd)
        words = b""
        while piece := connection.recv(64):
            words += piece
    started.wait()
    status = os.waitstatus_to_exitcode(int(words or 9))
    return status if status >= 0 else 128 - status


def _start(plan: dict, folder: str) -> "subprocess.Popen[bytes]":
    share = f'"type=bind","source={folder}","target={_FOLDER}","readonly"'
    first = _FIRST.replace("{folder}", _FOLDER)
    words = ["--mount", share, "--entrypoint", plan["python"], plan["image"], "-I", "-S", "-c", first]
    # its standard output is the container's id
    return subprocess.Popen(
        [*plan["run"], *words], env=_ENV, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )


def _accepted(listener: socket.socket, started: "subprocess.Popen[bytes]") -> socket.socket | None:
    """The connection from inside; None where Docker says that there will be none, or none comes."""
    until = time.monotonic() + _START_S
    while time.monotonic() < until and started.poll() in (None, 0):
        if select.select([listener], [], [], 0.05)[0]:
            return listener.accept()[0]
    return None


def _inherited(fd: int) -> bool:
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False  # that of the listing itself


def _environment() -> dict[str, str]:
    """The environment as it was handed over: Python adds LC_CTYPE to its own in the C locale."""
    with open("/proc/self/environ", "rb") as file:
        pairs = (entry.partition(b"=") for entry in file.read().split(b"\0") if entry)
        return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


if __name__ == "__main__":
    sys.exit(main())
