"""Runs jobs on this machine: each in a process of its own, one at a time on a GPU."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from warpsmith.errors import InfrastructureError
from warpsmith.gpu.devices import GpuInfo, list_gpus
from warpsmith.gpu.go import STANDBY, give_go
from warpsmith.gpu.leases import LEASES, lease_gpu
from warpsmith.types import Device, Job, JobOutcome, JobResult
from warpsmith.types.protocols import JobHandle

_KEPT = frozenset(
    """
    PATH HOME USER LOGNAME LANG LC_ALL LC_CTYPE TZ TMPDIR XDG_CACHE_HOME
    CUDA_HOME CUDA_PATH CUDA_DEVICE_ORDER CUDA_VISIBLE_DEVICES LD_LIBRARY_PATH NVIDIA_VISIBLE_DEVICES
    NVIDIA_DRIVER_CAPABILITIES NCCL_NVLS_ENABLE TORCH_SYMM_MEM_DISABLE_MULTICAST NVSHMEM_DISABLE_NVLS
    CC CXX MAX_JOBS OMP_NUM_THREADS TRITON_CACHE_DIR TRITON_LIBCUDA_PATH TRITON_PTXAS_PATH TORCHINDUCTOR_CACHE_DIR
    """.split()
)
_LEASE_TIMEOUT_S = 3600.0
_SLOT_POLL_S = 0.1


class ProcessEnd(Protocol):
    """How a process tree ended, as `warpsmith.sandbox.process.ProcessEnd` says it."""

    @property
    def exit_code(self) -> int | None: ...
    @property
    def signal(self) -> int | None: ...
    @property
    def timed_out(self) -> bool: ...
    @property
    def seconds(self) -> float: ...
    @property
    def tail(self) -> str: ...


class ProcessTree(Protocol):
    """A command and everything it starts, as `warpsmith.sandbox.process.Tree` runs it."""

    @property
    def pid(self) -> int: ...

    def wait(self, timeout_s: float | None = None) -> ProcessEnd | None: ...
    def kill_tree(self, *, timed_out: bool = False) -> ProcessEnd: ...


class StartTree(Protocol):
    """Starts a command: `warpsmith.sandbox.process.Tree`."""

    def __call__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | str | None,
        env: Mapping[str, str] | None,
        pass_fds: Sequence[int] = (),
    ) -> ProcessTree: ...


def job_environment(environ: Mapping[str, str], gpu: GpuInfo | None = None) -> dict[str, str]:
    """What of `environ` a job gets: where compilers, CUDA and caches are, and nothing that changes results.

    PYTHONPATH, LD_PRELOAD and switches such as NVIDIA_TF32_OVERRIDE or TORCH_* are left out. With `gpu`, only
    that GPU is visible.
    """
    kept = {k: v for k, v in environ.items() if k in _KEPT or k.startswith("WARPSMITH_")}
    if gpu is not None:
        # by UUID: CUDA's own numbering differs from NVML's
        kept["CUDA_VISIBLE_DEVICES"] = gpu.uuid
    return kept


def visible_gpus(gpus: Sequence[GpuInfo], setting: str | None) -> tuple[GpuInfo, ...]:
    """Those of `gpus` that a CUDA_VISIBLE_DEVICES of `setting` (None: not set) leaves visible, in its order."""
    if setting is None:
        return tuple(gpus)
    chosen: list[GpuInfo] = []
    for word in (word.strip() for word in setting.split(",")):
        match = next((g for g in gpus if word and (str(g.index) == word or g.uuid.startswith(word))), None)
        if match is None:
            # CUDA stops at the first name that it does not know
            break
        chosen.append(match)
    return tuple(chosen)


class StandbyJob:
    """A job whose process has started, and waits for its device."""

    def __init__(self, pool: "LocalPool", job: Job, tree: ProcessTree):
        self._pool, self._job, self._tree = pool, job, tree
        self._closed = threading.Event()

    def alive(self) -> bool:
        """False where the process has ended already."""
        return self._tree.wait(0.0) is None

    def run(self, timeout_s: float) -> JobResult:
        """Leases the device and lets the job go on, to its end or for `timeout_s` seconds; its tree is gone then.

        Another thread may `close` it meanwhile. Raises InfrastructureError where there is no GPU or none came free.
        """
        try:
            with self._pool.device(self._job.device, cancelled=self._closed.is_set) as gpu:
                own = job_environment(os.environ, gpu)
                variables = {k: v for k, v in own.items() if k == "CUDA_VISIBLE_DEVICES"}
                give_go(Path(self._job.folder), variables)
                return _result(_finish(self._tree, timeout_s), gpu)
        finally:
            self.close()

    def close(self) -> None:
        """Ends the process, whatever it does or waits for."""
        self._closed.set()
        self._tree.kill_tree()


class SubmittedJob:
    """A job that a thread of its own runs: a `JobHandle`."""

    def __init__(self, pool: "LocalPool", job: Job):
        self._pool, self._job = pool, job
        self._cancelled = threading.Event()
        self._future: Future[JobResult] = Future()
        self._tree: ProcessTree | None = None
        self._one = threading.Lock()
        threading.Thread(target=self._work, daemon=True).start()

    def done(self) -> bool:
        """Whether there is a result."""
        return self._future.done()

    def result(self, timeout_s: float | None = None) -> JobResult:
        """Waits for the result. Raises TimeoutError, and InfrastructureError where no device could be had."""
        return self._future.result(timeout_s)

    def cancel(self) -> None:
        """Ends the job wherever it is."""
        with self._one:
            self._cancelled.set()
            tree = self._tree
        if tree is not None:
            tree.kill_tree()

    def _work(self) -> None:
        try:
            with self._pool.device(self._job.device, cancelled=self._cancelled.is_set) as gpu:
                result = self._run(gpu)
        except InfrastructureError as error:
            if self._cancelled.is_set():
                self._future.set_result(JobResult(outcome=JobOutcome.CANCELLED))
            else:
                self._future.set_exception(error)
        else:
            self._future.set_result(result)

    def _run(self, gpu: GpuInfo | None) -> JobResult:
        with self._one:
            if self._cancelled.is_set():
                return JobResult(outcome=JobOutcome.CANCELLED)
            self._tree = self._pool.spawn(self._job, job_environment(os.environ, gpu))
        try:
            result = _result(_finish(self._tree, self._job.timeout_s), gpu)
        finally:
            self._tree.kill_tree()
        is_ours = self._cancelled.is_set() and result.outcome is JobOutcome.CRASHED
        return result.model_copy(update={"outcome": JobOutcome.CANCELLED}) if is_ours else result


class LocalPool:
    """A `GpuPool` and `DeviceLease` on this machine, with a fresh process for each job: for commands that run few.

    Methods may be called from several threads.

    `start` is `warpsmith.sandbox.process.Tree`, handed in from above. At most `sim_jobs` jobs that need no GPU run
    at a time. `lease_timeout_s` is how long a job waits for a GPU that others hold.
    """

    def __init__(
        self,
        start: StartTree,
        *,
        sim_jobs: int | None = None,
        lease_timeout_s: float = _LEASE_TIMEOUT_S,
        leases: Path = LEASES,
        gpus: Callable[[], Sequence[GpuInfo]] = list_gpus,
    ):
        self._start = start
        self._sim_jobs = sim_jobs or max(1, (os.cpu_count() or 2) // 2)
        self._slots = threading.BoundedSemaphore(self._sim_jobs)
        self._lease_timeout_s = lease_timeout_s
        self._leases = leases
        self._gpus = gpus

    def submit(self, job: Job) -> SubmittedJob:
        """Starts a job as soon as its device is free."""
        require_folder(job)
        return SubmittedJob(self, job)

    def run(self, job: Job) -> JobResult:
        """Runs a job to its end or its time limit, its process tree gone when this returns.

        Raises InfrastructureError where there is no GPU, none came free, or no process can be started.
        """
        return to_its_end(self.submit(job))

    def capacity(self, device: Device) -> int:
        """How many jobs run at a time."""
        if device is Device.CUDA:
            return len(visible_gpus(self._gpus(), os.environ.get("CUDA_VISIBLE_DEVICES")))
        return self._sim_jobs

    def close(self) -> None:
        """Nothing stays between jobs."""

    def standby(self, job: Job) -> StandbyJob:
        """Starts a job's process up to where it needs its device, holding none. Close it or run it.

        Raises InfrastructureError where no process can be started.
        """
        require_folder(job)
        environment = job_environment(os.environ)
        # What it starts in the meantime must not see a GPU that it was not given.
        environment.pop("CUDA_VISIBLE_DEVICES", None)
        return StandbyJob(self, job, self.spawn(job, environment, STANDBY))

    def spawn(self, job: Job, environment: Mapping[str, str], *more: str) -> ProcessTree:
        """A job's process. Raises InfrastructureError where none can be started."""
        argv = [sys.executable, "-I", "-m", "warpsmith.gpu.job", job.entry, job.folder, *more]
        return self._start(argv, cwd=job.folder, env=environment)

    @contextmanager
    def lease(self, device: Device, timeout_s: float) -> Iterator[int | None]:
        """Exclusive use of a GPU while the block runs: its NVML index; None on `sim`, which is only counted."""
        with self.device(device, timeout_s) as gpu:
            yield None if gpu is None else gpu.index

    @contextmanager
    def device(
        self,
        device: Device,
        timeout_s: float | None = None,
        *,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Iterator[GpuInfo | None]:
        """The same, naming the GPU; waits `lease_timeout_s` where no other time is given."""
        timeout_s = self._lease_timeout_s if timeout_s is None else timeout_s
        if device is Device.CUDA:
            gpus = visible_gpus(self._gpus(), os.environ.get("CUDA_VISIBLE_DEVICES"))
            with lease_gpu(gpus, timeout_s, self._leases, cancelled) as gpu:
                yield gpu
            return
        self._take_slot(timeout_s, cancelled)
        try:
            yield None
        finally:
            self._slots.release()

    def _take_slot(self, timeout_s: float, cancelled: Callable[[], bool]) -> None:
        deadline = time.monotonic() + timeout_s
        while not self._slots.acquire(timeout=_SLOT_POLL_S):
            if cancelled():
                raise InfrastructureError("the job was cancelled before a simulator slot came free")
            if time.monotonic() >= deadline:
                raise InfrastructureError(f"no slot for a simulator job came free in {timeout_s:.0f} s")


def to_its_end(submitted: JobHandle) -> JobResult:
    """A job's result; whoever is interrupted while it waits leaves no job behind."""
    try:
        return submitted.result()
    except BaseException:
        submitted.cancel()
        raise


def require_folder(job: Job) -> None:
    """InfrastructureError for a job that has no folder."""
    if not Path(job.folder).is_dir():
        raise InfrastructureError(f"the job folder {job.folder} does not exist")


def _finish(tree: ProcessTree, timeout_s: float) -> ProcessEnd:
    return tree.wait(timeout_s) or tree.kill_tree(timed_out=True)


def _result(end: ProcessEnd, gpu: GpuInfo | None) -> JobResult:
    if end.timed_out:
        outcome = JobOutcome.TIMED_OUT
    else:
        outcome = JobOutcome.COMPLETED if end.exit_code == 0 else JobOutcome.CRASHED
    return JobResult(
        outcome=outcome,
        exit_code=end.exit_code,
        signal=end.signal,
        seconds=end.seconds,
        device_index=None if gpu is None else gpu.index,
        log_tail=end.tail,
    )
