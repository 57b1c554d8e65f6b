"""Takes composed tasks through the gates in a few long-lived processes, and goes on where it stopped."""

import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from warpsmith.errors import InfrastructureError
from warpsmith.store.record_log import RecordLog
from warpsmith.synthesis.records import ComposedTask, FilterRow, Reject
from warpsmith.synthesis.worker import RETIRED
from warpsmith.types import Device

FILTER_VERSION = 1
"""Raised whenever the gates change, so that rows of older ones answer nothing."""
TIMEOUT_S = {Device.SIM: 30.0, Device.CUDA: 150.0}
"""One task's checks; a stuck process is ended."""
START_S = 180.0
RECYCLE = {Device.SIM: 2000, Device.CUDA: 200}
"""Tasks that one process checks before a fresh one takes over: their code leaves traces."""


class FilterLog(RecordLog[FilterRow]):
    """What was said of each task, by its hash and the device."""

    def __init__(self, path: Path):
        super().__init__(path, FilterRow, lambda row: f"{row.task_hash} {row.device}")

    def find(self, task: ComposedTask, device: Device) -> FilterRow | None:
        """The row of the gates as they are now; one that was lost answers nothing."""
        row = self.get(f"{task.task_hash} {device}")
        if row is None or row.filter_version != FILTER_VERSION or Reject.INFRASTRUCTURE in row.rejects:
            return None
        return row


def filter_tasks(
    tasks: Sequence[ComposedTask],
    log: FilterLog,
    device: Device,
    *,
    budget_s: float | None = None,
    told: Callable[[FilterRow], None] = lambda row: None,
) -> list[FilterRow]:
    """One row a task that was checked, in order; those that the log answers are not checked again.

    Ends early once `budget_s` is used up: the same call goes on from there. A task that ends its process or hangs is
    rejected, and a new process goes on. Raises InfrastructureError where no process starts.
    """
    found: list[FilterRow] = []
    ends = None if budget_s is None else time.monotonic() + budget_s
    seen: set[str] = set()
    with WorkerProcess(device) as worker:
        for task in tasks:
            if task.task_hash in seen:
                continue  # the same text twice is counted by deduplication
            seen.add(task.task_hash)
            row = log.find(task, device)
            if row is None:
                left = None if ends is None else ends - time.monotonic()
                if left is not None and left <= 0:
                    break
                row = worker.check(task, within_s=left)
                if row is None:
                    break
                log.append(row, durable=device is Device.CUDA)
            found.append(row)
            told(row)
    return found


class WorkerProcess:
    """One process that checks tasks one by one, started when it is first needed and again after it ended."""

    def __init__(self, device: Device):
        self._device = device
        self._process: subprocess.Popen[bytes] | None = None
        self._checked = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def check(self, task: ComposedTask, *, within_s: float | None = None) -> FilterRow | None:
        """The task's row; None where `within_s` ran out first, which says nothing of the task."""
        if self._checked >= RECYCLE[self._device]:
            self._end()
        limit_s = TIMEOUT_S[self._device]
        if self._process is None:
            self._start()
            limit_s += START_S
        begun = time.monotonic()
        wait_s = limit_s if within_s is None else min(limit_s, within_s)
        line = self._asked(task, wait_s)
        self._checked += 1
        if line:
            return FilterRow.model_validate_json(line)
        seconds, first = time.monotonic() - begun, self._checked == 1
        status = None if line is None or self._process is None else self._process.wait()
        self._end()
        if status == RETIRED and not first:
            return self.check(task, within_s=within_s)  # it ended by itself after the task before
        if line is None and wait_s < limit_s:
            return None
        if line is not None and first and not self._starts():
            raise InfrastructureError(f"the process that checks tasks ends at once (status {status})",
                                      hint="run `warpsmith doctor`")  # fmt: skip
        reject = Reject.TIMED_OUT if line is None else Reject.CRASHED
        how = f"no answer in {seconds:.0f} s" if line is None else f"the process ended with status {status}"
        return FilterRow(task_hash=task.task_hash, device=self._device, filter_version=FILTER_VERSION,
                         rejects=(reject,), detail=how, seconds=round(seconds, 3))  # fmt: skip

    def _asked(self, task: ComposedTask, wait_s: float) -> bytes | None:
        """A line, an empty one where the process ended, None where it did not answer in time."""
        assert (
            self._process is not None and self._process.stdin is not None and self._process.stdout is not None
        )
        try:
            self._process.stdin.write(task.model_dump_json().encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return b""
        ready, _, _ = select.select([self._process.stdout], [], [], wait_s)
        return self._process.stdout.readline() if ready else None

    def _start(self) -> None:
        self._end()
        self._checked = 0
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-m", "warpsmith.synthesis.worker", self._device.value],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def _starts(self) -> bool:
        """Whether a process with no task ends well."""
        argv = [sys.executable, "-I", "-m", "warpsmith.synthesis.worker", self._device.value]
        return (
            subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=START_S).returncode
            == 0
        )

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
        self._process = None


def funnel(rows: Sequence[FilterRow]) -> dict[str, int]:
    """Tasks by the first reason of their rejection, in the order of the checks; `passed` last."""
    found = Counter(row.rejects[0] if row.rejects else None for row in rows)
    counts = {reason.value: found[reason] for reason in Reject if found[reason]}
    return {**counts, "passed": found[None]}
