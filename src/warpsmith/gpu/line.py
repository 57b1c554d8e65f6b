"""Jobs for devices of one kind, first come first served: a queue, and a thread for each device."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from warpsmith.errors import InfrastructureError
from warpsmith.gpu.handles import PooledJob
from warpsmith.gpu.leases import all_leased, release, try_lease
from warpsmith.gpu.slots import Slot
from warpsmith.gpu.warm import JobEnd, Running
from warpsmith.types import Attempt, Device, JobOutcome

ATTEMPTS = 3
"""Tries at a job whose workers are lost."""
BLAMED = 2
"""So many of them, each between two passed self-tests, are the job's own doing."""
_LEASE_POLL_S = 0.05


class Line:
    """The `slots` of one kind of device and the jobs that wait for them.

    `leases`: where GPUs are leased from the machine's other users. `told` hears of quarantines.
    """

    def __init__(
        self,
        slots: Sequence[Slot],
        *,
        leases: Path,
        lease_timeout_s: float,
        retest_s: float,
        told: Callable[[str], None],
    ):
        self.slots = tuple(slots)
        self._leases, self._lease_timeout_s, self._retest_s = leases, lease_timeout_s, retest_s
        self._told = told
        self._queue: deque[PooledJob] = deque()
        self._running: set[PooledJob] = set()
        self._granted_s = time.monotonic()
        self._closed = False
        lock = threading.RLock()
        # a slot that may not take jobs waits apart, so that waking one thread wakes one that may
        self._idle, self._apart = threading.Condition(lock), threading.Condition(lock)
        self._threads = [
            threading.Thread(target=self._work, args=(slot,), daemon=True) for slot in self.slots
        ]
        for thread in self._threads:
            thread.start()

    def require_usable(self) -> None:
        """Raises InfrastructureError where no job will ever run here."""
        if self._closed:
            raise InfrastructureError("the pool is closed")
        if all(slot.quarantine for slot in self.slots):
            raise self._all_quarantined()

    def enqueue(self, job: PooledJob) -> None:
        """Puts a job last. Raises InfrastructureError where no device is in order."""
        with self._idle:
            self.require_usable()
            self._queue.append(job)
            self._idle.notify()

    def forget(self, job: PooledJob) -> None:
        """A job that was cancelled waits no longer."""
        with self._idle:
            waited = job in self._queue
            if waited:
                self._queue.remove(job)
        if waited:
            job.finish(JobOutcome.CANCELLED)

    def close(self) -> None:
        """Cancels all jobs and ends all workers."""
        with self._idle:
            self._closed = True
            jobs = (*self._queue, *self._running)
            self._idle.notify_all()
            self._apart.notify_all()
        # first the workers: whoever waits for one to start, or to pass its test, waits no longer
        for slot in self.slots:
            slot.close()
        for job in jobs:
            job.cancel()
        for thread in self._threads:
            thread.join()

    def _work(self, slot: Slot) -> None:
        while (taken := self._take(slot)) is not None:
            job, lease = taken
            again = False
            try:
                again = self._retest(slot) if job is None else self._serve(slot, job)
            except Exception as error:  # noqa: BLE001  whoever waits for the job must not wait for ever
                self._failed(job, error)
            finally:
                release(lease)
                self._give_back(slot, job, again=again)

    def _take(self, slot: Slot) -> tuple[PooledJob | None, int | None] | None:
        """The next job for `slot`, and the lease; no job where the slot is to be tested; None: the pool is closed."""
        with self._idle:
            while not self._closed:
                if slot.quarantine:
                    left = slot.tested_s + self._retest_s - time.monotonic()
                    if left > 0:
                        self._apart.wait(left)
                        continue
                job = None if slot.quarantine else self._first(slot)
                if job is None and not slot.quarantine:
                    self._idle.wait()
                    continue
                try:
                    granted, lease = try_lease(slot.gpu, self._leases)
                except InfrastructureError as error:
                    # nobody may make locks here: no job will ever have a device
                    self._drop(job, error)
                    self._apart.wait(_LEASE_POLL_S)
                    continue
                if not granted:
                    self._overdue(job)
                    self._idle.notify()
                    self._apart.wait(_LEASE_POLL_S)
                    continue
                self._granted_s = time.monotonic()
                slot.busy = True
                if job is not None:
                    self._queue.remove(job)
                    self._running.add(job)
                return job, lease
        return None

    def _first(self, slot: Slot) -> PooledJob | None:
        """The first job that `slot` did not lose already; one that it did, where no other slot is in order."""
        for job in self._queue:
            others = slot.number in job.avoid and any(
                s.number not in job.avoid and not s.quarantine for s in self.slots
            )
            if not others:
                return job
        return None

    def _overdue(self, job: PooledJob | None) -> None:
        """Others hold every GPU, and have for too long."""
        if job is None or any(slot.busy for slot in self.slots):
            return
        if time.monotonic() - max(job.submitted_s, self._granted_s) > self._lease_timeout_s:
            self._drop(job, all_leased(self._lease_timeout_s))

    def _drop(self, job: PooledJob | None, error: InfrastructureError) -> None:
        if job is not None:
            self._queue.remove(job)
            job.fail(error)

    @staticmethod
    def _failed(job: PooledJob | None, error: Exception) -> None:
        if job is not None and not isinstance(error, InfrastructureError):
            error = InfrastructureError(f"the pool failed: {type(error).__name__}: {error}")
        if job is not None:
            job.fail(error)

    def _give_back(self, slot: Slot, job: PooledJob | None, *, again: bool) -> None:
        with self._idle:
            slot.busy = False
            if job is not None:
                self._running.discard(job)
            if again and not self._closed:
                self._queue.appendleft(job)
            elif again:
                job.finish(JobOutcome.CANCELLED)
            if all(s.quarantine for s in self.slots):
                for waiting in self._queue:
                    waiting.fail(self._all_quarantined())
                self._queue.clear()
            if again or slot.quarantine:
                # a job that waited for this slot may now be another's
                self._idle.notify_all()

    def _serve(self, slot: Slot, job: PooledJob) -> bool:
        """Runs the job on the slot; True: it must be run again."""
        # a retry is held against the job only between two passed tests
        if (slot.suspect or job.lost) and not self._test(slot):
            return True
        before = slot.proven
        try:
            running = job.begin(lambda: self._process(slot, job))
        except InfrastructureError:
            # the worker went before it could take the job
            return self._lost(slot, job, "", before=before)
        if running is None:
            job.finish(JobOutcome.CANCELLED)
            return False
        end = running.wait(job.job.timeout_s) or running.kill(timed_out=True)
        if end.lost and not job.cancelled:
            return self._lost(slot, job, running.worker, before=before)
        self._ended(slot, job, running, end)
        return False

    @staticmethod
    def _process(slot: Slot, job: PooledJob) -> Running:
        if job.standby is not None:
            job.standby.go(slot.variables)
            return job.standby
        return slot.worker().start(job.job, slot.variables)

    @staticmethod
    def _ended(slot: Slot, job: PooledJob, running: Running, end: JobEnd) -> None:
        if job.cancelled:
            outcome = JobOutcome.CANCELLED
        elif end.timed_out:
            outcome = JobOutcome.TIMED_OUT
        else:
            outcome = JobOutcome.COMPLETED if end.exit_code == 0 else JobOutcome.CRASHED
        if outcome is JobOutcome.COMPLETED:
            slot.proven = True
        elif slot.device is Device.CUDA:
            # whatever it did to the device must not be met by the next job
            slot.suspect = True
            slot.recycle()
        job.finish(
            outcome, exit_code=end.exit_code, signal=end.signal, seconds=end.seconds,
            device_index=slot.index, log_tail=end.tail, worker=running.worker,
        )  # fmt: skip

    def _lost(self, slot: Slot, job: PooledJob, worker: str, *, before: bool) -> bool:
        """The job's worker was lost: whose fault, and what now."""
        if self._closed:
            job.finish(JobOutcome.CANCELLED)
            return False
        after = self._test(slot)
        slot.recycle()
        job.lost.append(Attempt(worker=worker, device_index=slot.index, healthy=before and after))
        told = {"device_index": slot.index, "worker": worker}
        if sum(attempt.healthy for attempt in job.lost) >= BLAMED:
            line = f"the job ended {BLAMED} workers that passed a self-test before and after it"
            job.finish(JobOutcome.CRASHED, log_tail=line, **told)
        elif job.standby is not None or len(job.lost) >= ATTEMPTS:
            # what it had begun while it stood by cannot be begun again here
            job.finish(JobOutcome.LOST, **told)
        else:
            job.avoid.add(slot.number)
            return True
        return False

    def _retest(self, slot: Slot) -> bool:
        """Tries a quarantined device again; never anything to run again."""
        if slot.test():
            self._told(f"{_name(slot)} is in order again")
        return False

    def _test(self, slot: Slot) -> bool:
        fine = slot.test()
        if not fine and not self._closed:
            self._told(f"{_name(slot)} is quarantined: {slot.quarantine}")
        return fine

    def _all_quarantined(self) -> InfrastructureError:
        reasons = "; ".join(dict.fromkeys(slot.quarantine for slot in self.slots))
        return InfrastructureError(f"every device is quarantined: {reasons}", hint="see warpsmith doctor")


def _name(slot: Slot) -> str:
    return f"GPU {slot.index}" if slot.gpu else f"simulator slot {slot.number}"
