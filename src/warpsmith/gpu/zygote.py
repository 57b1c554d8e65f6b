"""A worker's process: `python -I -m warpsmith.gpu.zygote FD MODULE…` loads modules once and forks each job.

It must never touch CUDA, which a fork could not use. With each request on the socket FD comes a channel. A keeper is
forked, which forks the job and stays until all that the job started is gone; its last words on the channel are JSON:
the job's wait status and the end of what it printed. The channel's other end being shut means: kill the job. A keeper
that was killed itself leaves orphans, which become children of this process and are killed on `SWEEP`.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys

import psutil

from warpsmith.gpu.go import STANDBY
from warpsmith.gpu.job import main as run_job

READY, SWEEP, SWEPT = b"ready", b"sweep", b"swept"
MAX_REQUEST = 1 << 18
TAIL_BYTES = 4000
_SUBREAPER, _DEATH_SIGNAL = 36, 1


def main() -> None:
    """Serves until the socket's other end is gone; never returns."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    _prctl(_DEATH_SIGNAL, signal.SIGKILL)
    _prctl(_SUBREAPER, 1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for module in sys.argv[2:]:
        # a job that needs what is missing says so itself
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    gc.collect()
    # what is loaded by now is shared with every job
    gc.freeze()
    control.send(READY)
    keepers: set[int] = set()
    while True:
        data, fds, _, _ = socket.recv_fds(control, MAX_REQUEST, 1)
        _reap(keepers)
        if data == SWEEP:
            _kill_orphans(keepers)
            control.send(SWEPT)
        elif data:
            keepers.add(_fork_keeper(control, fds[0], json.loads(data)))
        else:
            os._exit(0)


def _fork_keeper(control: socket.socket, channel_fd: int, request: dict) -> int:
    pid = os.fork()
    if pid:
        os.close(channel_fd)
        return pid
    try:
        control.close()
        _keep(socket.socket(fileno=channel_fd), request)
    finally:
        os._exit(1)


def _keep(channel: socket.socket, request: dict) -> None:
    """Runs the job, kills what it left, says how it ended."""
    _prctl(_DEATH_SIGNAL, signal.SIGKILL)
    _prctl(_SUBREAPER, 1)
    os.setsid()
    read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
    job = os.fork()
    if job == 0:
        channel.close()
        os.close(read_fd)
        _job(request, write_fd)
    os.close(write_fd)
    status, tail = _watch(job, channel, read_fd)
    _kill_children()
    while data := os.read(read_fd, 1 << 16):
        tail = (tail + data)[-TAIL_BYTES:]
    # it fails where nobody listens any more
    with contextlib.suppress(OSError):
        channel.sendall(json.dumps({"status": status, "tail": tail.decode(errors="replace")}).encode())
    os._exit(0)


def _job(request: dict, output: int) -> None:
    """The job's own process: never returns."""
    code = 1
    try:
        _prctl(_DEATH_SIGNAL, signal.SIGKILL)
        _prctl(_SUBREAPER, 0)
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDONLY)
        for fd, source in ((0, null), (1, output), (2, output)):
            os.dup2(source, fd)
        os.close(output)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        if "numpy" in sys.modules:
            # numpy alone does not notice a fork: all jobs would draw the same numbers
            sys.modules["numpy"].random.seed()
        sys.argv = ["job", request["entry"], request["folder"], *([STANDBY] if request["standby"] else [])]
        code = run_job(sys.argv[1:])
    except BaseException:  # noqa: BLE001  the process ends here, and says why
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _watch(job: int, channel: socket.socket, output: int) -> tuple[int, bytes]:
    """Waits until the job has ended or must end; its wait status (SIGKILL's where it must), and what it printed."""
    tail, handle = b"", os.pidfd_open(job)
    poller = select.poll()
    poller.register(channel, select.POLLIN | select.POLLHUP)
    poller.register(handle, select.POLLIN)
    poller.register(output, select.POLLIN)
    while True:
        ready = {fd for fd, _ in poller.poll()}
        if output in ready:
            data = os.read(output, 1 << 16)
            tail = (tail + data)[-TAIL_BYTES:]
            if not data:
                poller.unregister(output)
        if handle in ready:
            return os.waitpid(job, 0)[1], tail
        if channel.fileno() in ready:
            return signal.SIGKILL, tail


def _kill_children() -> None:
    """Kills and reaps descendants until none is left: orphans of the killed become children of this process."""
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        _kill(psutil.Process().children(recursive=True))
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)


def _kill(processes: list[psutil.Process]) -> None:
    # stopped first, so that what is being killed cannot fork faster than it dies
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                process.send_signal(number)


def _reap(keepers: set[int]) -> None:
    with contextlib.suppress(ChildProcessError):
        while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            keepers.discard(pid)


def _kill_orphans(keepers: set[int]) -> None:
    """Children that are no keepers were left by one that was killed."""
    while True:
        _reap(keepers)
        orphans = [child for child in psutil.Process().children() if child.pid not in keepers]
        if not orphans:
            return
        for orphan in orphans:
            with contextlib.suppress(psutil.NoSuchProcess):
                _kill([*orphan.children(recursive=True), orphan])
        for orphan in orphans:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(orphan.pid, 0)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main()
