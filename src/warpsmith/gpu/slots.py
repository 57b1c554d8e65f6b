"""What a pool knows of each device: its worker, whether both are in order, and who holds it."""

import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from warpsmith.errors import InfrastructureError
from warpsmith.gpu.devices import GpuInfo
from warpsmith.gpu.self_test import ENTRY, TIMEOUT_S
from warpsmith.gpu.warm import Worker
from warpsmith.types import Device, Job

StartWorker = Callable[[], Worker]
FindFault = Callable[[GpuInfo], str]
"""What is wrong with a GPU that nothing of ours runs on, in one line; empty where nothing is known."""


@dataclass
class Slot:
    """A GPU, or room for one job on the simulator. Jobs run on it one at a time, by its own worker or another's."""

    device: Device
    number: int
    start: StartWorker
    find_fault: FindFault
    gpu: GpuInfo | None = None
    jobs_per_worker: int = 200
    busy: bool = False
    quarantine: str = ""
    """Why it gets no jobs; empty where it does."""
    tested_s: float = 0.0
    """When (monotonic) it was quarantined or last tried again."""
    suspect: bool = False
    """Something ended badly on it: it is tested before its next job."""
    proven: bool = False
    """Since its worker was started, a job or a self-test ended normally, and nothing badly after that."""
    closed: bool = False
    _worker: Worker | None = None
    _jobs: int = 0
    _one: threading.Lock = field(default_factory=threading.Lock)

    @property
    def index(self) -> int | None:
        """NVML's number of the GPU."""
        return None if self.gpu is None else self.gpu.index

    @property
    def variables(self) -> Mapping[str, str]:
        """What tells a job its GPU: by UUID, since CUDA's own numbering differs from NVML's."""
        return {} if self.gpu is None else {"CUDA_VISIBLE_DEVICES": self.gpu.uuid}

    @property
    def load(self) -> int:
        """Jobs that its worker has open, on whichever device."""
        return self._worker.open_jobs if self._worker is not None else 0

    def worker(self) -> Worker:
        """Its worker; a fresh one where there is none, it is gone, or it has run its share. InfrastructureError."""
        with self._one:
            if self.closed:
                raise InfrastructureError("the pool is closed")
            if self._worker is not None and (not self._worker.alive() or self._jobs >= self.jobs_per_worker):
                self._worker.retire()
                self._worker = None
            if self._worker is None:
                self._worker, self._jobs, self.proven = self.start(), 0, False
            self._jobs += 1
            return self._worker

    def recycle(self) -> None:
        """The next job gets a fresh worker; jobs that stand by on this one keep it until they have ended."""
        with self._one:
            worker, self._worker, self.proven = self._worker, None, False
        if worker is not None:
            worker.retire()

    def close(self) -> None:
        """Ends the worker and all its jobs; there will be no other."""
        with self._one:
            self.closed = True
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()

    def test(self) -> bool:
        """Whether worker and device are in order; where not, the device is quarantined. The device must be held."""
        trouble = self.find_fault(self.gpu) if self.gpu is not None else ""
        trouble = trouble or self._self_test()
        self.suspect, self.proven, self.quarantine = False, not trouble, trouble
        self.tested_s = time.monotonic()
        return not trouble

    def _self_test(self) -> str:
        """What is wrong; a worker that is lost on the way says nothing about the device, and another one is asked."""
        trouble, lost = self._tried()
        if lost:
            self.recycle()
            trouble, lost = self._tried()
        return trouble

    def _tried(self) -> tuple[str, bool]:
        """What is wrong, and whether the worker was lost."""
        try:
            with tempfile.TemporaryDirectory(prefix="warpsmith-self-test-") as folder:
                job = Job(entry=ENTRY, folder=folder, device=self.device, timeout_s=TIMEOUT_S)
                running = self.worker().start(job, self.variables)
                end = running.wait(job.timeout_s) or running.kill(timed_out=True)
        except (InfrastructureError, OSError) as error:
            return f"its self-test cannot be run: {error}", True
        if end.exit_code == 0 and not end.lost:
            return "", False
        last = end.tail.strip().splitlines()
        how = "did not end" if end.timed_out else "lost its worker" if end.lost else "failed"
        return f"its self-test {how}" + (f": {last[-1][:200]}" if last else ""), end.lost
