"""Runs jobs on this machine: each in a process of its own, one at a time on a GPU."""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from warpsmith.errors import InfrastructureError
from warpsmith.gpu.devices import GpuInfo, list_gpus
from warpsmith.gpu.leases import LEASES, lease_gpu
from warpsmith.types import Device, Job, JobOutcome, JobResult

_KEPT = frozenset(
    """
    PATH HOME USER LOGNAME LANG LC_ALL LC_CTYPE TZ TMPDIR XDG_CACHE_HOME
    CUDA_HOME CUDA_PATH CUDA_DEVICE_ORDER CUDA_VISIBLE_DEVICES LD_LIBRARY_PATH NVIDIA_VISIBLE_DEVICES
    NVIDIA_DRIVER_CAPABILITIES NCCL_NVLS_ENABLE TORCH_SYMM_MEM_DISABLE_MULTICAST NVSHMEM_DISABLE_NVLS
    CC CXX MAX_JOBS OMP_NUM_THREADS TRITON_CACHE_DIR TRITON_LIBCUDA_PATH TRITON_PTXAS_PATH TORCHINDUCTOR_CACHE_DIR
    """.split()
)
_LEASE_TIMEOUT_S = 3600.0


class ProcessEnd(Protocol):
    """How a process tree ended, as `warpsmith.sandbox.process.ProcessEnd` says it."""

    @property
    def exit_code(self) -> int | None: ...
    @property
    def timed_out(self) -> bool: ...
    @property
    def seconds(self) -> float: ...
    @property
    def tail(self) -> str: ...


class RunTree(Protocol):
    """Runs a command; no process of its tree is left on return: `warpsmith.sandbox.process.run_tree`."""

    def __call__(
        self, argv: Sequence[str], *, timeout_s: float, cwd: Path | str | None, env: Mapping[str, str] | None
    ) -> ProcessEnd: ...


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


class LocalPool:
    """A `GpuPool` and `DeviceLease` on this machine; `run` may be called from several threads.

    `run_tree` is `warpsmith.sandbox.process.run_tree`, handed in from above. At most `sim_jobs` jobs that need
    no GPU run at a time. `lease_timeout_s` is how long a job waits for a GPU that others hold.
    """

    def __init__(
        self,
        run_tree: RunTree,
        *,
        sim_jobs: int | None = None,
        lease_timeout_s: float = _LEASE_TIMEOUT_S,
        leases: Path = LEASES,
        gpus: Callable[[], Sequence[GpuInfo]] = list_gpus,
    ):
        self._run_tree = run_tree
        self._slots = threading.BoundedSemaphore(sim_jobs or max(1, (os.cpu_count() or 2) // 2))
        self._lease_timeout_s = lease_timeout_s
        self._leases = leases
        self._gpus = gpus

    def run(self, job: Job) -> JobResult:
        """Runs a job to its end or its time limit, its process tree gone when this returns.

        Raises InfrastructureError where there is no GPU, none came free, or no process can be started.
        """
        if not Path(job.folder).is_dir():
            raise InfrastructureError(f"the job folder {job.folder} does not exist")
        with self._device(job.device, self._lease_timeout_s) as gpu:
            end = self._run_tree(
                [sys.executable, "-I", "-m", "warpsmith.gpu.job", job.entry, job.folder],
                timeout_s=job.timeout_s,
                cwd=job.folder,
                env=job_environment(os.environ, gpu),
            )
        if end.timed_out:
            outcome = JobOutcome.TIMED_OUT
        else:
            outcome = JobOutcome.COMPLETED if end.exit_code == 0 else JobOutcome.CRASHED
        return JobResult(
            outcome=outcome,
            exit_code=end.exit_code,
            seconds=end.seconds,
            device_index=None if gpu is None else gpu.index,
            log_tail=end.tail,
        )

    @contextmanager
    def lease(self, device: Device, timeout_s: float) -> Iterator[int | None]:
        """Exclusive use of a GPU while the block runs: its NVML index; None on `sim`, which is only counted."""
        with self._device(device, timeout_s) as gpu:
            yield None if gpu is None else gpu.index

    @contextmanager
    def _device(self, device: Device, timeout_s: float) -> Iterator[GpuInfo | None]:
        if device is Device.CUDA:
            gpus = visible_gpus(self._gpus(), os.environ.get("CUDA_VISIBLE_DEVICES"))
            with lease_gpu(gpus, timeout_s, self._leases) as gpu:
                yield gpu
            return
        if not self._slots.acquire(timeout=timeout_s):
            raise InfrastructureError(f"no slot for a simulator job came free in {timeout_s:.0f} s")
        try:
            yield None
        finally:
            self._slots.release()
