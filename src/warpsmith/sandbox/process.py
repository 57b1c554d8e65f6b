"""Child processes that end with everything they started.

Every command runs in a session of its own under `supervisor.py`, which finds and kills its whole tree: when
the command ends, when the time is up, and when this process dies, however it dies.
"""

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from warpsmith.errors import InfrastructureError
from warpsmith.sandbox.capture import BoundedCapture

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_GRACE_S = 10.0
_PAUSE_S = 2.0
_STILL_LISTS = 3
CAPTURE_BYTES = 1 << 18


@dataclass(frozen=True)
class ProcessEnd:
    """How a command ended. `exit_code` is None where a signal ended it; `output` is bounded (head and tail).

    `signal` is also read off exit codes above 128: a wrapper (shell, sandbox) reports its child's signal so.
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool
    seconds: float
    output: str

    @property
    def ok(self) -> bool:
        """Exit code 0, in time."""
        return self.exit_code == 0 and not self.timed_out

    @property
    def tail(self) -> str:
        """The last 4000 characters of the output."""
        return self.output[-4000:]


class Tree:
    """A command and everything it starts; leaving the `with` block kills what is left of it.

    Any threads may wait for it and kill it at once: all are told the same end.
    `argv[0]` is looked up in the PATH of `env`. `env` is the whole environment (None: this process's own).
    stdout and stderr are captured together, at most `capture_bytes` of them, also into `log_path` if given.
    With `guests`, processes forked elsewhere may enter the pid namespace that the command makes; they end and pause
    with it. Raises InfrastructureError where the program is missing or no process can be started.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | str | None = None,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        log_path: Path | None = None,
        capture_bytes: int = CAPTURE_BYTES,
        stdin: int = subprocess.DEVNULL,
        guests: bool = False,
    ):
        env = dict(os.environ if env is None else env)
        program = shutil.which(argv[0], path=env.get("PATH", os.defpath))
        if program is None:
            raise InfrastructureError(f"cannot run {argv[0]}: no such program", hint="install it or set PATH")
        program = os.path.abspath(program)
        self._end: ProcessEnd | None = None
        self._timed_out = False
        self._guests = guests
        self._ending = threading.Lock()
        self._started = time.monotonic()
        read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
        self._capture = _capture(read_fd, write_fd, capture_bytes, log_path)
        self._control, theirs = socket.socketpair()
        # not when the tree has ended: another thread may be about to look at it, and its number may be reused
        weakref.finalize(self, self._control.close)
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [
                        sys.executable,
                        "-I",
                        "-S",
                        str(_SUPERVISOR),
                        str(theirs.fileno()),
                        "--",
                        program,
                        *argv[1:],
                    ],
                    cwd=cwd,
                    env=env,
                    stdin=stdin,
                    stdout=write_fd,
                    stderr=write_fd,
                    pass_fds=(theirs.fileno(), *pass_fds),
                    start_new_session=True,
                )
            except OSError as error:
                where = f" in {cwd}" if cwd is not None else ""
                raise InfrastructureError(f"cannot run {argv[0]}{where}: {error.strerror}") from error
            finally:
                os.close(write_fd)

    @property
    def pid(self) -> int:
        """The supervisor's process id; the command and what it started are its descendants."""
        return self._process.pid

    def output(self) -> str:
        """What was printed so far, bounded."""
        return self._capture.text()

    def poll(self) -> ProcessEnd | None:
        """How it ended, or None while it runs. Never waits."""
        return self.wait(0.0)

    def wait(self, timeout_s: float | None = None) -> ProcessEnd | None:
        """Waits at most `timeout_s` seconds (None: for ever); None where it still runs. Kills nothing."""
        if self._end is None:
            poller = select.poll()
            poller.register(self._control, select.POLLIN | select.POLLHUP)
            if not poller.poll(None if timeout_s is None else max(0.0, timeout_s) * 1000):
                return None
            self._finish()
        return self._end

    def pause(self) -> None:
        """Stops every process of the tree until `resume`; one that has ended is passed over.

        A tree that forks, or wakes its own, faster than it can be stopped is killed.
        """
        deadline = time.monotonic() + _PAUSE_S
        still, before = 0, frozenset[int]()
        # a process that forks and ends can be missed in one list of them
        while still < _STILL_LISTS:
            if time.monotonic() > deadline:
                self.kill_tree()
                return
            processes = self._processes()
            running = [process for process in processes if _runs(process)]
            if running:
                _signal_inside(processes, signal.SIGSTOP)
            for process in running:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.suspend()
            now = frozenset(process.pid for process in processes)
            still = 0 if running or now != before else still + 1
            before = now

    def resume(self) -> None:
        """Lets the tree go on."""
        processes = self._processes()
        _signal_inside(processes, signal.SIGCONT)
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()

    def _processes(self) -> list[psutil.Process]:
        try:
            family = psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [*family, *_guests_of(family)] if self._guests else family

    def kill_tree(self, *, timed_out: bool = False) -> ProcessEnd:
        """Kills the whole tree and waits until it is gone; how it ended (unchanged where it had already).

        Raises InfrastructureError where a process does not die (stuck in the kernel).
        """
        if self._end is None:
            with self._ending:
                if self._end is None:
                    self._timed_out = timed_out
                    self._control.shutdown(socket.SHUT_WR)
            self._finish()
        assert self._end is not None
        return self._end

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill_tree()

    def _finish(self) -> None:
        with self._ending:
            if self._end is None:
                self._collect()

    def _collect(self) -> None:
        status = self._stop()
        seconds = time.monotonic() - self._started
        try:
            self._capture.finish(_GRACE_S)
        except OSError as error:
            raise InfrastructureError(f"cannot write the log: {error.strerror}") from error
        finally:
            exit_code, number = _explain(status)
            self._end = ProcessEnd(exit_code, number, self._timed_out, seconds, self._capture.text())

    def _stop(self) -> int:
        """Waits for the supervisor, which is killing the tree or has; the command's wait status."""
        self._control.settimeout(_GRACE_S)
        try:
            words = self._control.recv(64)
        except (TimeoutError, ConnectionError):
            words = b""
        if not words:
            # the supervisor itself was killed, or a process is stuck: what can be found is killed here
            family = _family(self._process.pid)
            self._process.kill()
            for process in family:
                _kill(process)
            _, alive = psutil.wait_procs(family, timeout=_GRACE_S)
            if alive:
                pids = ", ".join(str(process.pid) for process in alive)
                raise InfrastructureError(
                    f"killed processes do not end: {pids}", hint="a driver may hang; restart the machine"
                )
        self._process.wait()
        return int(words or signal.SIGKILL)


def run_tree(
    argv: Sequence[str],
    *,
    timeout_s: float,
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    log_path: Path | None = None,
    capture_bytes: int = CAPTURE_BYTES,
    pass_fds: Sequence[int] = (),
) -> ProcessEnd:
    """Runs a command to its end or for `timeout_s` seconds; none of its processes is left when this returns.

    Ctrl-C, like any exception, kills the tree and goes on up. The parameters and errors are those of `Tree`.
    """
    with Tree(
        argv, cwd=cwd, env=env, log_path=log_path, capture_bytes=capture_bytes, pass_fds=pass_fds
    ) as tree:
        return tree.wait(timeout_s) or tree.kill_tree(timed_out=True)


def _capture(read_fd: int, write_fd: int, limit: int, log_path: Path | None) -> BoundedCapture:
    try:
        return BoundedCapture(read_fd, limit, log_path)
    except OSError as error:
        os.close(read_fd)
        os.close(write_fd)
        raise InfrastructureError(f"cannot write {log_path}: {error.strerror}") from error


def _explain(status: int) -> tuple[int | None, int | None]:
    """Exit code and signal of a wait status."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return None, -code
    if 128 < code <= 128 + signal.NSIG:
        return code, code - 128
    return code, None


def _family(pid: int) -> list[psutil.Process]:
    """Descendants of `pid`, and what is left of its session: all that can be found once it is dead itself.

    By number, so that who waits for another is ended before it: nobody is left to report the other's end.
    """
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != pid and (os.getsid(process.pid) == pid or pid in map(_pid, process.parents())):
                found.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def _own_namespaces(processes: Sequence[psutil.Process]) -> dict[int, int]:
    """The pid namespaces that these have for themselves, each with the id of a process in it."""
    own = os.stat("/proc/self/ns/pid").st_ino
    first: dict[int, int] = {}
    for process in processes:
        with contextlib.suppress(OSError):
            first.setdefault(os.stat(f"/proc/{process.pid}/ns/pid").st_ino, process.pid)
    first.pop(own, None)
    return first


def _guests_of(family: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Processes of other parents in the pid namespaces that these have for themselves, and all below them.

    Those below may have made a further namespace, where they would not be found.
    """
    known, spaces = {process.pid for process in family}, _own_namespaces(family)
    found: dict[int, psutil.Process] = {}
    for pid in psutil.pids() if spaces else ():
        with contextlib.suppress(OSError, psutil.NoSuchProcess):
            if pid not in known and os.stat(f"/proc/{pid}/ns/pid").st_ino in spaces:
                found[pid] = psutil.Process(pid)
    for process in list(found.values()):
        with contextlib.suppress(psutil.NoSuchProcess):
            below = process.children(recursive=True) if process.ppid() not in found else []
            found |= {child.pid: child for child in below}
    return list(found.values())


def _signal_inside(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    """Signals every process in the pid namespaces that these have for themselves, all at one moment.

    From inside the kernel does that as a whole, with what is being forked; a list of processes can miss one whose
    parent ends while it is made. Without namespaces, or nsenter, nothing happens.
    """
    tool = shutil.which("nsenter")
    user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
    for pid in _own_namespaces(processes).values() if tool else ():
        argv = [tool, f"--target={pid}", *user, "--pid", "--", "sh", "-c", f"kill -{int(number)} -1"]
        subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_GRACE_S, check=False)


def _pid(process: psutil.Process) -> int:
    return process.pid


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return
    except psutil.AccessDenied as error:
        raise InfrastructureError(f"may not kill process {process.pid}, which this run started") from error
