"""What a pool gives for a job: a handle on one that was submitted, and a process that stands by for a device."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from warpsmith.errors import InfrastructureError
from warpsmith.gpu.warm import Running
from warpsmith.types import Attempt, Job, JobOutcome, JobResult


class Queue(Protocol):
    """Where jobs wait."""

    def enqueue(self, job: "PooledJob") -> None: ...

    def forget(self, job: "PooledJob") -> None: ...


class PooledJob:
    """A job that was submitted: a `JobHandle`. `standby` is its process, where that has started already."""

    def __init__(self, queue: Queue, job: Job, standby: Running | None = None):
        self.job = job
        self.standby = standby
        self.lost: list[Attempt] = []
        self.avoid: set[int] = set()
        """Numbers of the slots that lost it."""
        self.submitted_s = time.monotonic()
        self.cancelled = False
        self._future: Future[JobResult] = Future()
        self._queue = queue
        self._running = standby
        self._one = threading.Lock()

    def done(self) -> bool:
        """Whether there is a result."""
        return self._future.done()

    def result(self, timeout_s: float | None = None) -> JobResult:
        """Waits for the result. Raises TimeoutError, and InfrastructureError where no device could be had."""
        return self._future.result(timeout_s)

    def cancel(self) -> None:
        """Ends the job wherever it is; its result then says so, unless it had ended before."""
        with self._one:
            self.cancelled = True
            running = self._running
        if running is not None:
            running.kill()
        self._queue.forget(self)

    def begin(self, start: Callable[[], Running]) -> Running | None:
        """Its process, now that it has a device; None where it was cancelled."""
        with self._one:
            if self.cancelled:
                return None
            self._running = start()
            return self._running

    def finish(self, outcome: JobOutcome, **fields: object) -> None:
        """Gives it its one result; later ones are nothing."""
        with self._one:
            if not self._future.done():
                values = {"outcome": outcome, "lost": tuple(self.lost), **fields}
                self._future.set_result(JobResult.model_validate(values))

    def fail(self, error: InfrastructureError) -> None:
        """Nobody can run it."""
        with self._one:
            if not self._future.done():
                self._future.set_exception(error)


class PooledStandby:
    """A job whose process has started on a worker and waits for any device of the pool: a `Standby`."""

    def __init__(self, queue: Queue, job: Job, running: Running):
        self._queue, self._job, self._running = queue, job, running
        self._submitted: PooledJob | None = None
        self._closed = False
        self._one = threading.Lock()

    def alive(self) -> bool:
        """False where the process has ended already."""
        return self._running.alive()

    def run(self, timeout_s: float) -> JobResult:
        """Waits for a device and lets the job go on, for at most `timeout_s` seconds from then."""
        job = self._job.model_copy(update={"timeout_s": timeout_s})
        with self._one:
            if self._closed:
                return JobResult(outcome=JobOutcome.CANCELLED)
            self._submitted = PooledJob(self._queue, job, self._running)
        try:
            self._queue.enqueue(self._submitted)
            return self._submitted.result()
        finally:
            self._running.kill()

    def close(self) -> None:
        """Ends the process, whatever it does or waits for."""
        with self._one:
            self._closed = True
        if self._submitted is not None:
            self._submitted.cancel()
        self._running.kill()
