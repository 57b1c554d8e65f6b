"""What judges many submissions at a time: workers that stay, shared by the threads of one run."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from warpsmith.errors import InfrastructureError
from warpsmith.types import Device, Target

if TYPE_CHECKING:
    from warpsmith.agent.actions import Profiler
    from warpsmith.judge.service import LocalJudge
    from warpsmith.types.protocols import Compiler, GpuPool, Judge, Sandbox

WARM = ("warpsmith.judge.session", "warpsmith.optimizer.worker")
"""What workers load before their first job."""


@dataclass(frozen=True)
class Station:
    """What one thread judges with. `pool`: where a policy may run jobs of its own; None: in this process.

    `sanitizing` and `profiler` are the instruments of an agent, None where they are not to be had.
    """

    judge: "Judge"
    compiler: "Compiler"
    target: Target
    pool: "GpuPool | None" = None
    sanitizing: "Judge | None" = None
    profiler: "Profiler | None" = None


class Fleet(Protocol):
    """Leaving the `with` block ends all that was started."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def station(self) -> Station:
        """One for each thread."""
        ...

    def stop(self) -> None:
        """Ends what runs; whoever waits for it gets an InfrastructureError."""
        ...


class LocalFleet:
    """Workers of this machine: one a GPU, or `jobs` on the simulator. `told` hears of devices that fail.

    Raises InfrastructureError where there is no GPU.
    """

    def __init__(self, device: Device, jobs: int, told: Callable[[str], None] = lambda line: None):
        from warpsmith.compile import LocalCompiler
        from warpsmith.gpu.pool import WorkerPool
        from warpsmith.gpu.warm import WarmWorker
        from warpsmith.judge.runner.forkserver import ForkServer
        from warpsmith.sandbox import for_submissions
        from warpsmith.sandbox.process import Tree

        self._target = Target(device=device, arch=default_arch() if device is Device.CUDA else "")
        self._compiler, self._sandbox = LocalCompiler(), for_submissions()
        self.pool = WorkerPool(lambda: WarmWorker(Tree, WARM), sim_jobs=jobs, told=told)
        self._forks = ForkServer() if self._sandbox.enterable else None
        self._judges: list[LocalJudge] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        for judge in self._judges:
            judge.close()
        if self._forks is not None:
            self._forks.close()

    def station(self) -> Station:
        """A judge and instruments of its own on the shared pool and compiler."""
        from warpsmith.judge.repeating import RepeatingJudge
        from warpsmith.judge.service import LocalJudge

        made = {"arch": self._target.arch, "forks": self._forks}
        judge = LocalJudge(self.pool, self._compiler, self._sandbox, **made, ahead=True)
        self._judges.append(judge)
        plain = LocalJudge(self.pool, self._compiler, self._sandbox, **made)
        return Station(
            RepeatingJudge(judge, self.pool.renew), self._compiler, self._target, self.pool,
            *instruments(plain, self.pool, self._compiler, self._sandbox, self._target),
        )  # fmt: skip

    def stop(self) -> None:
        """Ends the pool."""
        self.pool.close()


def instruments(
    judge: "Judge", pool: "GpuPool", compiler: "Compiler", sandbox: "Sandbox", target: Target
) -> "tuple[Judge | None, Profiler]":
    """What an agent looks into a submission with: a judge that sanitizes before `judge`, and Nsight Compute's reader.

    No judge where the compiler for it is not installed; the answer to the action then says so.
    """
    from warpsmith.judge.instruments.ncu import NcuProfiler
    from warpsmith.judge.instruments.sanitize import SanitizedJudge

    profiler = NcuProfiler(pool, compiler, target, sandbox.name)
    try:
        return SanitizedJudge.local(judge, pool, compiler, sandbox, arch=target.arch), profiler
    except InfrastructureError:
        return None, profiler


def default_jobs(device: Device) -> int:
    """Episodes at a time: on GPUs three for each, so that one judges while others compile or think."""
    if device is Device.SIM:
        return max(1, (os.cpu_count() or 2) // 2)
    return 3 * max(1, gpu_count())


def gpu_count() -> int:
    """GPUs that this process may see."""
    return len(_gpus())


def default_arch() -> str:
    """What kernels are built for on the first GPU. Raises InfrastructureError where there is none."""
    gpus = _gpus()
    if not gpus:
        raise InfrastructureError("no NVIDIA GPU was found", hint="use --device sim, or see warpsmith doctor")
    return gpus[0].arch


def _gpus() -> tuple:
    from warpsmith.gpu.devices import list_gpus
    from warpsmith.gpu.local import visible_gpus

    return visible_gpus(list_gpus(), os.environ.get("CUDA_VISIBLE_DEVICES"))
