"""Runs compilers: bounded in time, memory and output, whole process trees killed."""

import contextlib
import os
import resource
import select
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from warpsmith.compile.isolation import isolated
from warpsmith.errors import InfrastructureError
from warpsmith.types.protocols import Sandbox

MAX_OUTPUT_BYTES = 1 << 20
MAX_FILE_BYTES = 2 << 30
_MAX_MEMORY_BYTES = 32 << 30


class BuildTimedOutError(Exception):
    """The build's time is used up, or the build was given up. Never leaves `warpsmith.compile`."""


@dataclass(frozen=True)
class Ran:
    """How a compiler ended; `output` is stdout and stderr together, cut at MAX_OUTPUT_BYTES."""

    exit_code: int
    output: str


class Processes:
    """The compiler processes of one build, under one deadline. Safe to use from several threads."""

    def __init__(self, timeout_s: float, sandbox: Sandbox):
        self._sandbox = sandbox
        self._deadline = time.monotonic() + timeout_s
        self._cpu_s = int(timeout_s) + 10
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._given_up = False

    def compile(self, argv: Sequence[str], cwd: Path, sources: Path, out: Path) -> Ran:
        """Runs a compiler in `cwd`, where it reads nothing but `sources`, `cwd` and its own, and writes `out`.

        As root, `out` is handed to the sandbox's user. Errors as of `run`.
        """
        wrapped = isolated(argv, self._sandbox, cwd, sources, out, self._cpu_s, MAX_FILE_BYTES)
        ran = self.run(wrapped, cwd, temporary=out if wrapped == list(argv) else Path("/tmp"))
        if ran.exit_code in (126, 127):
            raise InfrastructureError(
                f"{argv[0]} does not start in the sandbox {self._sandbox.name}", hint="run `warpsmith doctor`"
            )
        return ran

    def run(self, argv: Sequence[str], cwd: Path, *, temporary: Path | None = None) -> Ran:
        """Runs `argv` in `cwd` with a scrubbed environment; temporary files go to `cwd` or to `temporary`.

        Raises BuildTimedOutError past the deadline or after `give_up`, InfrastructureError where the program
        cannot be started.
        """
        process = self._start(argv, cwd, temporary or cwd)
        try:
            output = self._read(process)
            exit_code = process.wait(timeout=max(self._deadline - time.monotonic(), 0.001))
        except (BuildTimedOutError, subprocess.TimeoutExpired):
            raise BuildTimedOutError from None
        finally:
            self._end(process)
        return Ran(exit_code, output.decode(errors="replace"))

    def give_up(self) -> None:
        """Kills everything that runs and refuses to start more."""
        with self._lock:
            self._given_up = True
            for process in self._running:
                _kill_tree(process)

    def _start(self, argv: Sequence[str], cwd: Path, temporary: Path) -> "subprocess.Popen[bytes]":
        with self._lock:
            if self._given_up or time.monotonic() >= self._deadline:
                raise BuildTimedOutError
            try:
                process = subprocess.Popen(
                    argv,
                    cwd=cwd,
                    env=_environment(temporary),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise InfrastructureError(
                    f"cannot start {argv[0]}: {error.strerror}", hint="run `warpsmith doctor`"
                ) from error
            self._running.add(process)
        # a compiler that outlives us (we were killed) still ends; it may have ended already
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(process.pid, resource.RLIMIT_CPU, (self._cpu_s, self._cpu_s))
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (MAX_FILE_BYTES, MAX_FILE_BYTES))
            resource.prlimit(process.pid, resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))
            resource.prlimit(process.pid, resource.RLIMIT_CORE, (0, 0))
        return process

    def _read(self, process: "subprocess.Popen[bytes]") -> bytes:
        assert process.stdout is not None
        descriptor = process.stdout.fileno()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN | select.POLLHUP)
        kept = bytearray()
        while True:
            remaining = self._deadline - time.monotonic()
            if remaining <= 0 or self._given_up:
                raise BuildTimedOutError
            if not poll.poll(remaining * 1000):
                continue
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                return bytes(kept)
            kept += chunk[: MAX_OUTPUT_BYTES - len(kept)]

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        if process.returncode is None:
            _kill_tree(process)
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
        with self._lock:
            self._running.discard(process)


def _kill_tree(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _environment(temporary: Path) -> dict[str, str]:
    """No variable that changes what a compiler makes (CPATH, NVCC_APPEND_FLAGS …), nor any secret."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C.UTF-8",
        "HOME": str(temporary),
        "TMPDIR": str(temporary),
    }
