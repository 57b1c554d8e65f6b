"""The processes that check tasks, several at a time."""

import os
import queue
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from warpsmith.errors import InfrastructureError
from warpsmith.gpu.devices import GpuInfo
from warpsmith.synthesis.records import FILTER_VERSIONS, ComposedTask, FilterRow, Reject
from warpsmith.synthesis.turns import ALONE, GO, OVER, POLL_S, RETIRED, SHARED, GpuTurns, Until
from warpsmith.types import Device

TIMEOUT_S = {Device.SIM: 30.0, Device.CUDA: 150.0}
"""One task's checks, waiting for turns left out; a stuck process is ended."""
START_S = 180.0
RECYCLE = {Device.SIM: 2000, Device.CUDA: 200}
"""Tasks that one process checks before a fresh one takes over: their code leaves traces."""


class WorkerProcess:
    """One process that checks tasks one by one, started when it is first needed and again after it ended.

    `gpu`: the one that it sees, in `turns` with others. `threads`: that compiling may use; as many as there are by
    default.
    """

    def __init__(
        self,
        device: Device,
        *,
        gpu: GpuInfo | None = None,
        turns: GpuTurns | None = None,
        threads: int | None = None,
        argv: Sequence[str] | None = None,
    ):
        self._device = device
        self._argv = argv or [sys.executable, "-I", "-m", "warpsmith.synthesis.worker", device.value]
        self._environment = dict(os.environ)
        if gpu is not None:
            self._environment["CUDA_VISIBLE_DEVICES"] = gpu.uuid
        if threads is not None:
            self._environment.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(threads))
        self._turns = turns or GpuTurns()
        self._held: bytes | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._said = bytearray()
        self._checked = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def check(self, task: ComposedTask, until: Until | None = None) -> FilterRow | None:
        """The task's row; None where the time was up first, which says nothing of the task."""
        until = until or Until()
        if self._checked >= RECYCLE[self._device]:
            self._end()
        limit_s = TIMEOUT_S[self._device]
        if self._process is None:
            self._start()
            limit_s += START_S
        begun = time.monotonic()
        line = self._asked(task, limit_s, until)
        self._checked += 1
        if line:
            return FilterRow.model_validate_json(line)
        seconds, first = time.monotonic() - begun, self._checked == 1
        status = None if line is None or self._process is None else self._process.wait()
        self._end()
        if status == RETIRED and not first:
            return self.check(task, until)  # it ended by itself after the task before
        if line is None and not until.left_s():
            return None
        if line is not None and first and not self._starts():
            raise InfrastructureError(f"the process that checks tasks ends at once (status {status})",
                                      hint="run `warpsmith doctor`")  # fmt: skip
        reject = Reject.TIMED_OUT if line is None else Reject.CRASHED
        how = f"no answer in {seconds:.0f} s" if line is None else f"the process ended with status {status}"
        return FilterRow(task_hash=task.task_hash, device=self._device, filter_version=FILTER_VERSIONS[self._device],
                         rejects=(reject,), detail=how, seconds=round(seconds, 3))  # fmt: skip

    def _asked(self, task: ComposedTask, limit_s: float, until: Until) -> bytes | None:
        """A row's line, an empty one where the process ended, None where it did not answer in time."""
        ends = time.monotonic() + limit_s
        self._tell(task.model_dump_json().encode())
        while True:
            line = self._line(ends, until)
            if line in (SHARED, ALONE):
                asked = time.monotonic()
                if not self._turns.take(line, until):
                    return None
                ends += time.monotonic() - asked
                self._held = line
                self._tell(GO)
            elif line == OVER:
                self._give()
            else:
                return line

    def _tell(self, line: bytes) -> None:
        assert self._process is not None and self._process.stdin is not None
        left = memoryview(line + b"\n")
        try:
            while left:
                left = left[self._process.stdin.write(left) :]
        except BrokenPipeError:
            return  # it ended, which its output will say

    def _line(self, ends: float, until: Until) -> bytes | None:
        assert self._process is not None and self._process.stdout is not None
        while b"\n" not in self._said:
            wait_s = min(ends - time.monotonic(), until.left_s(), POLL_S)
            if wait_s <= 0:
                return None
            if select.select([self._process.stdout], [], [], wait_s)[0]:
                block = os.read(self._process.stdout.fileno(), 1 << 16)
                if not block:
                    return b""
                self._said += block
        line, _, rest = bytes(self._said).partition(b"\n")
        self._said[:] = rest
        return line

    def _start(self) -> None:
        self._end()
        self._checked = 0
        self._process = subprocess.Popen(
            self._argv, env=self._environment, bufsize=0,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def _starts(self) -> bool:
        """Whether a process with no task ends well."""
        found = subprocess.run(
            self._argv, env=self._environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=START_S
        )
        return found.returncode == 0

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
        self._process = None
        self._said.clear()
        self._give()  # not before: a process that lives may still run something there

    def _give(self) -> None:
        if self._held is not None:
            self._turns.give(self._held)
        self._held = None


def rows_of(
    tasks: Sequence[ComposedTask], workers: Sequence[WorkerProcess], until: Until
) -> Iterator[FilterRow]:
    """Rows as they come, each task checked by the first worker that is free; fewer where the time is up before.

    Raises InfrastructureError where processes do not start, after what the others found.
    """
    if not tasks:
        return
    todo, one = iter(tasks), threading.Lock()
    found: queue.SimpleQueue[FilterRow | None] = queue.SimpleQueue()

    def work(worker: WorkerProcess) -> None:
        try:
            with worker:
                while until.left_s():
                    with one:
                        task = next(todo, None)
                    row = None if task is None else worker.check(task, until)
                    if row is None:
                        return
                    found.put(row)
        finally:
            found.put(None)

    with ThreadPoolExecutor(len(workers)) as threads:
        working = [threads.submit(work, worker) for worker in workers]
        try:
            for _ in workers:
                yield from iter(found.get, None)
        except BaseException:
            until.stop()
            raise
    for done in working:
        done.result()
