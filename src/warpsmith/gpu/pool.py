"""A pool of workers that stay: jobs in, one result each out, whatever becomes of workers and devices."""

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from warpsmith.errors import InfrastructureError
from warpsmith.gpu.devices import GpuInfo, list_gpus
from warpsmith.gpu.handles import PooledJob, PooledStandby
from warpsmith.gpu.leases import LEASES, no_gpu
from warpsmith.gpu.line import Line
from warpsmith.gpu.local import require_folder, to_its_end, visible_gpus
from warpsmith.gpu.probe import stuck
from warpsmith.gpu.slots import FindFault, Slot, StartWorker
from warpsmith.types import Device, Job, JobResult

_RETEST_S = 60.0
_LEASE_TIMEOUT_S = 3600.0


class WorkerPool:
    """A `GpuPool` on this machine: a worker for each GPU, and `sim_jobs` of them for jobs that need none.

    `start` makes a worker. A GPU is also leased from the machine's other users, while a job runs and no longer.
    After `jobs_per_worker` jobs, when it was lost, or when its job ended badly on a GPU, a worker is replaced; in the
    last two cases its device is tested too. One that fails is quarantined, and tried again every `retest_s` seconds.
    All methods may be called from any thread.
    """

    def __init__(
        self,
        start: StartWorker,
        *,
        sim_jobs: int | None = None,
        gpus: Callable[[], Sequence[GpuInfo]] = list_gpus,
        leases: Path = LEASES,
        lease_timeout_s: float = _LEASE_TIMEOUT_S,
        find_fault: FindFault = stuck,
        jobs_per_worker: int = 200,
        retest_s: float = _RETEST_S,
        told: Callable[[str], None] = lambda line: None,
    ):
        self._start, self._gpus, self._find_fault = start, gpus, find_fault
        self._sim_jobs = sim_jobs or max(1, (os.cpu_count() or 2) // 2)
        self._leases, self._lease_timeout_s, self._retest_s = leases, lease_timeout_s, retest_s
        self._jobs_per_worker = jobs_per_worker
        self._told = told
        self._lines: dict[Device, Line] = {}
        self._closed = False
        self._one = threading.Lock()

    def submit(self, job: Job) -> PooledJob:
        """Queues a job. Raises InfrastructureError where it could never run."""
        require_folder(job)
        line = self._line(job.device)
        submitted = PooledJob(line, job)
        line.enqueue(submitted)
        return submitted

    def run(self, job: Job) -> JobResult:
        """Runs a job to its end; its processes are gone then."""
        return to_its_end(self.submit(job))

    def standby(self, job: Job) -> PooledStandby:
        """Starts a job's process up to where it needs its device, holding none. Close it or run it."""
        require_folder(job)
        line = self._line(job.device)
        line.require_usable()
        # any worker will do: a job is bound to a device only when it goes on
        slot = min(line.slots, key=lambda slot: (bool(slot.quarantine), slot.load, slot.number))
        return PooledStandby(line, job, slot.worker().start(job, None))

    def renew(self, device: Device) -> None:
        """From now on jobs for such devices get fresh workers, and each device is tested before its next job."""
        for slot in self._line(device).slots:
            slot.suspect = True
            slot.recycle()

    def capacity(self, device: Device) -> int:
        """How many jobs run at a time; devices in quarantine do not count."""
        try:
            line = self._line(device)
        except InfrastructureError:
            return 0
        return sum(not slot.quarantine for slot in line.slots)

    def quarantined(self) -> dict[tuple[Device, int], str]:
        """Why, of each device that gets no jobs."""
        slots = [slot for line in self._lines.values() for slot in line.slots]
        return {(slot.device, slot.number): slot.quarantine for slot in slots if slot.quarantine}

    def close(self) -> None:
        """Ends everything: jobs that run or wait are cancelled, and all processes are gone when this returns."""
        with self._one:
            self._closed = True
            lines = tuple(self._lines.values())
        for line in lines:
            line.close()

    def _line(self, device: Device) -> Line:
        """Made with the first job for such a device. Raises InfrastructureError where there is none."""
        with self._one:
            if self._closed:
                raise InfrastructureError("the pool is closed")
            if device not in self._lines:
                self._lines[device] = Line(
                    self._slots(device), leases=self._leases, lease_timeout_s=self._lease_timeout_s,
                    retest_s=self._retest_s, told=self._told,
                )  # fmt: skip
            return self._lines[device]

    def _slots(self, device: Device) -> list[Slot]:
        places: list[GpuInfo | None] = [None] * self._sim_jobs
        if device is Device.CUDA:
            places = list(visible_gpus(self._gpus(), os.environ.get("CUDA_VISIBLE_DEVICES")))
            if not places:
                raise no_gpu()
        return [
            Slot(device, number, self._start, self._find_fault, gpu, self._jobs_per_worker)
            for number, gpu in enumerate(places)
        ]
