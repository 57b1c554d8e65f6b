"""Workers and a look at devices that do what they are told to: for tests and dry runs of a pool."""

import itertools
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from warpsmith.errors import InfrastructureError
from warpsmith.gpu.devices import GpuInfo
from warpsmith.gpu.warm import JobEnd
from warpsmith.types import Job


@dataclass(frozen=True)
class Scene:
    """What a job does: takes so long, then ends so. `kills_worker`: the worker goes with it."""

    seconds: float = 0.0
    exit_code: int = 0
    lost: bool = False
    kills_worker: bool = False
    tail: str = ""
    ended: Callable[[], None] = lambda: None
    """Called when it has ended, before its device is anybody else's."""


Script = Callable[[Job, Mapping[str, str]], Scene]
"""A job and the variables of its device to what it does."""


class ScriptedRun:
    """A `Running` job without a process."""

    def __init__(self, worker: "ScriptedWorker", job: Job, variables: Mapping[str, str] | None):
        self.worker = worker.name
        self._worker, self._job = worker, job
        self._going, self._killed = threading.Event(), threading.Event()
        self._scene: Scene | None = None
        self._end: JobEnd | None = None
        self._one = threading.Lock()
        self._started = time.monotonic()
        if variables is not None:
            self.go(variables)

    def alive(self) -> bool:
        """False where it has ended."""
        return self._end is None and not self._worker.dead.is_set()

    def go(self, variables: Mapping[str, str]) -> None:
        """The scene begins."""
        self._started = time.monotonic()
        self._scene = self._worker.script(self._job, variables)
        self._going.set()

    def wait(self, timeout_s: float | None = None) -> JobEnd | None:
        """Its end as scripted, or None."""
        if self._end is not None:
            return self._end
        scene = self._scene or Scene(seconds=float("inf"))
        left = max(0.0, self._started + scene.seconds - time.monotonic())
        limit = left if timeout_s is None else min(left, timeout_s)
        killed = self._killed.wait(limit)
        if not killed and limit < left and not self._worker.dead.is_set():
            return None
        return self._finish(scene, killed=killed)

    def kill(self, *, timed_out: bool = False) -> JobEnd:
        """Ends it now."""
        self._killed.set()
        return self._finish(self._scene or Scene(), killed=True, timed_out=timed_out)

    def _finish(self, scene: Scene, *, killed: bool, timed_out: bool = False) -> JobEnd:
        with self._one:
            if self._end is None:
                seconds = time.monotonic() - self._started
                if scene.kills_worker and not killed:
                    self._worker.dead.set()
                if self._worker.dead.is_set() or (scene.lost and not killed):
                    self._end = JobEnd(lost=True, seconds=seconds)
                elif killed:
                    self._end = JobEnd(signal=9, timed_out=timed_out, seconds=seconds)
                else:
                    self._end = JobEnd(exit_code=scene.exit_code, seconds=seconds, tail=scene.tail)
                self._worker.open_jobs -= 1
                scene.ended()
            return self._end


@dataclass
class ScriptedWorker:
    """A `Worker` whose jobs follow `script`."""

    script: Script
    name: str
    open_jobs: int = 0
    dead: threading.Event = field(default_factory=threading.Event)

    def start(self, job: Job, variables: Mapping[str, str] | None) -> ScriptedRun:
        """A run of the script. Raises InfrastructureError where the worker is gone."""
        if self.dead.is_set():
            raise InfrastructureError("the scripted worker is gone")
        self.open_jobs += 1
        return ScriptedRun(self, job, variables)

    def alive(self) -> bool:
        """False once it was closed or went with a job."""
        return not self.dead.is_set()

    def retire(self) -> None:
        """Nothing holds it."""

    def close(self) -> None:
        """Gone."""
        self.dead.set()


class ScriptedWorkers:
    """What a pool starts workers with; `started` keeps them."""

    def __init__(self, script: Script = lambda job, variables: Scene()):
        self.started: list[ScriptedWorker] = []
        self._script, self._numbers = script, itertools.count()

    def __call__(self) -> ScriptedWorker:
        """A fresh worker with a name of its own."""
        self.started.append(ScriptedWorker(self._script, f"scripted-{next(self._numbers)}"))
        return self.started[-1]


class ScriptedProbe:
    """A look at a GPU that finds what stands in `faults` under its UUID."""

    def __init__(self, faults: Mapping[str, str] | None = None):
        self.faults = dict(faults or {})
        self.asked: list[str] = []

    def __call__(self, gpu: GpuInfo) -> str:
        """The fault, empty where there is none."""
        self.asked.append(gpu.uuid)
        return self.faults.get(gpu.uuid, "")


def scripted_gpus(count: int) -> tuple[GpuInfo, ...]:
    """So many GPUs that are not there."""
    return tuple(
        GpuInfo(index, f"GPU-{index:04d}", "NVIDIA H200", 1 << 37, driver="1", arch="sm_90")
        for index in range(count)
    )
