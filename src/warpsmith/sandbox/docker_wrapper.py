"""Starts a container and hands it this process's descriptors: `docker_wrapper.py PLAN ARGV…`.

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

# The first process inside, which nothing inside can signal or trace. Its child is the program. Once that has ended,
# or the wrapper has, it kills all else and waits for it. Only then it lets go of the output.
_FIRST = """\
import array, ctypes, json, os, select, signal, socket, struct
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
moved = [os.dup2(fd, top + at, inheritable=False) for at, fd in enumerate([*got, control.fileno()])]
os.closerange(3, top)
wake, woken = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
signal.signal(signal.SIGCHLD, lambda *_: None)
child = os.fork()
if child == 0:
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    for fd, number in zip(moved, plan["fds"]): os.dup2(fd, number)
    os.chdir(plan["cwd"])
    os.execve("/bin/sh", ["/bin/sh", "-c", 'exec "$@"', "sh", *plan["argv"]], plan["env"])
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
output, control = moved[plan["fds"].index(1)], moved[-1]
null = os.open(os.devnull, os.O_RDWR)
for fd in (0, 1, 2): os.dup2(null, fd)
for fd in moved[:-1]:
    if fd != output: os.close(fd)
poller = select.poll()
for fd in (wake, control): poller.register(fd, select.POLLIN | select.POLLHUP)
status = None
while status is None:
    for fd, _ in poller.poll():
        if fd == control: status = 9
        else: os.read(wake, 4096)
    while True:
        pid, ended = os.waitpid(-1, os.WNOHANG) if status is None else (0, 0)
        if pid == child: status = ended
        if pid in (0, child): break
try:
    os.kill(-1, signal.SIGKILL)
    while True: os.waitpid(-1, 0)
except OSError:
    pass
try: os.write(control, str(status).encode())
except OSError: pass
os._exit(0)
"""


def main() -> int:
    """The program's exit code, 128 + signal where one ended it; 125 where no container starts."""
    plan = json.loads(sys.argv[1])
    fds = [0, 1, 2, *sorted(fd for fd in map(int, os.listdir("/proc/self/fd")) if fd > 2 and _inherited(fd))]
    said = {
        "fds": fds,
        "argv": sys.argv[2:],
        "env": _environment(),
        "cwd": plan["cwd"],
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
