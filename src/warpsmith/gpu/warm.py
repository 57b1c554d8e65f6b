"""Workers that stay: this side of a process that has loaded what jobs need, and forks one for each."""

import contextlib
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from warpsmith.errors import InfrastructureError
from warpsmith.gpu.go import give_go
from warpsmith.gpu.local import StartTree, job_environment
from warpsmith.gpu.zygote import READY, SWEEP, SWEPT
from warpsmith.types import Job

START_S = 120.0
GRACE_S = 10.0
"""How long a killed job may take to be gone; then its worker is killed too."""


@dataclass(frozen=True)
class JobEnd:
    """How a job's process ended. `lost`: nobody was left to say it, and all of it is gone."""

    exit_code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    lost: bool = False
    seconds: float = 0.0
    tail: str = ""


class Running(Protocol):
    """A job's process, forked by the worker of this name. One thread may wait for it while another kills it."""

    worker: str

    def alive(self) -> bool: ...

    def go(self, variables: Mapping[str, str]) -> None:
        """Let a job that stands by go on, with these variables in its environment."""
        ...

    def wait(self, timeout_s: float | None = None) -> JobEnd | None: ...

    def kill(self, *, timed_out: bool = False) -> JobEnd:
        """Ends it and all that it started; how it ended, unchanged where it had already."""
        ...


class Worker(Protocol):
    """What runs jobs, each in a process of its own that starts fast."""

    name: str

    @property
    def open_jobs(self) -> int: ...

    def start(self, job: Job, variables: Mapping[str, str] | None) -> Running:
        """Starts a job; None for `variables` means that it stands by for its device.

        Raises InfrastructureError where the worker is gone.
        """
        ...

    def alive(self) -> bool: ...

    def retire(self) -> None:
        """Takes no more jobs, and ends when the last has ended."""
        ...

    def close(self) -> None:
        """Ends it and all its jobs; they are gone when this returns."""
        ...


class WarmWorker:
    """A `Worker` on this machine. `start` is `warpsmith.sandbox.process.Tree`; `modules` are loaded once, ahead.

    Raises InfrastructureError where no process can be started.
    """

    def __init__(self, start: StartTree, modules: Sequence[str] = ()):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = job_environment(os.environ)
        # jobs are told their GPU one by one
        environment.pop("CUDA_VISIBLE_DEVICES", None)
        argv = [sys.executable, "-I", "-m", "warpsmith.gpu.zygote", str(theirs.fileno()), *modules]
        with theirs:
            self._tree = start(argv, cwd="/", env=environment, pass_fds=(theirs.fileno(),))
        self.name = f"worker-{self._tree.pid}"
        self._environment = environment
        self._control = ours
        self._one = threading.Lock()
        self._ready = False
        self._retired = False
        self._open = 0

    @property
    def pid(self) -> int:
        """The process that has all of the worker's below it."""
        return self._tree.pid

    @property
    def open_jobs(self) -> int:
        """Jobs that have not ended."""
        return self._open

    def alive(self) -> bool:
        """False where its process has ended."""
        return not self._retired and self._tree.wait(0.0) is None

    def start(self, job: Job, variables: Mapping[str, str] | None) -> "WarmJob":
        """Forks a job, once the modules are loaded."""
        request = {
            "entry": job.entry,
            "folder": job.folder,
            "environment": self._environment | dict(variables or {}),
            "standby": variables is None,
        }
        ours, theirs = socket.socketpair()
        with theirs, self._one:
            self._await_ready()
            try:
                socket.send_fds(self._control, [json.dumps(request).encode()], [theirs.fileno()])
            except OSError as error:
                ours.close()
                raise self._gone() from error
            self._open += 1
        return WarmJob(self, job, ours)

    def sweep(self) -> None:
        """Kills what a killed keeper left behind; all jobs where that cannot be told."""
        with self._one:
            swept = self._ready
            if swept:
                try:
                    self._control.send(SWEEP)
                    swept = self._answer(GRACE_S) == SWEPT
                except OSError:
                    swept = False
        if not swept:
            self._tree.kill_tree()

    def retire(self) -> None:
        """Takes no more jobs, and ends when the last has ended."""
        with self._one:
            self._retired = True
            idle = self._open == 0
        if idle:
            self.close()

    def ended(self) -> None:
        """One of its jobs is gone."""
        with self._one:
            self._open -= 1
            idle = self._retired and self._open == 0
        if idle:
            self.close()

    def close(self) -> None:
        """Ends it and all its jobs."""
        self._retired = True
        self._tree.kill_tree()
        # not closed: another thread may be about to wait for it
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)

    def _await_ready(self) -> None:
        if self._ready:
            return
        if self._answer(START_S) != READY:
            raise self._gone()
        self._ready = True

    def _answer(self, timeout_s: float) -> bytes:
        """Its next word; empty where none came."""
        poller = select.poll()
        try:
            poller.register(self._control, select.POLLIN | select.POLLHUP)
            return self._control.recv(64) if poller.poll(timeout_s * 1000) else b""
        except (OSError, ValueError):
            # it was closed meanwhile
            return b""

    def _gone(self) -> InfrastructureError:
        end = self._tree.kill_tree()
        last = end.tail.strip().splitlines()
        return InfrastructureError("a worker ended by itself" + (f": {last[-1][:200]}" if last else ""))


class WarmJob:
    """A `Running` job of a warm worker."""

    def __init__(self, worker: WarmWorker, job: Job, channel: socket.socket):
        self._worker, self._job, self._channel = worker, job, channel
        self.worker = worker.name
        self._started = time.monotonic()
        self._ending = threading.Lock()
        self._timed_out = False
        self._end: JobEnd | None = None

    def alive(self) -> bool:
        """False where it has ended already."""
        return self.wait(0.0) is None

    def go(self, variables: Mapping[str, str]) -> None:
        """Lets it go on; its time counts from now."""
        self._started = time.monotonic()
        give_go(Path(self._job.folder), variables)

    def wait(self, timeout_s: float | None = None) -> JobEnd | None:
        """Waits at most so long; None where it still runs."""
        if self._end is None:
            poller = select.poll()
            poller.register(self._channel, select.POLLIN | select.POLLHUP)
            if not poller.poll(None if timeout_s is None else max(0.0, timeout_s) * 1000):
                return None
            self._finish()
        return self._end

    def kill(self, *, timed_out: bool = False) -> JobEnd:
        """Ends it and all that it started."""
        with self._ending:
            if self._end is None:
                self._timed_out = timed_out
                # it fails where the keeper is gone by itself
                with contextlib.suppress(OSError):
                    self._channel.shutdown(socket.SHUT_WR)
        self._finish()
        assert self._end is not None
        return self._end

    def _finish(self) -> None:
        with self._ending:
            if self._end is None:
                self._end = self._collect()
                self._worker.ended()

    def _collect(self) -> JobEnd:
        words = self._last_words()
        seconds = time.monotonic() - self._started
        if words is None:
            self._worker.sweep()
            return JobEnd(lost=True, timed_out=self._timed_out, seconds=seconds)
        code = os.waitstatus_to_exitcode(words["status"])
        number = -code if code < 0 else code - 128 if 128 < code <= 128 + signal.NSIG else None
        return JobEnd(
            exit_code=None if code < 0 else code,
            signal=number,
            timed_out=self._timed_out,
            seconds=seconds,
            tail=words["tail"],
        )

    def _last_words(self) -> dict | None:
        self._channel.settimeout(GRACE_S)
        data = b""
        try:
            while part := self._channel.recv(1 << 16):
                data += part
            return json.loads(data)
        except (OSError, ValueError):
            return None
