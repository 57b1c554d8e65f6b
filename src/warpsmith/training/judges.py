"""The judge of a training run, described so that every worker can make its own."""

import os
import queue
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType

from warpsmith.errors import UsageError
from warpsmith.rollout import Limits
from warpsmith.rollout.scripted import ScriptedCompiler, ScriptedJudge, scripted_verdict
from warpsmith.training.collect import Workbench
from warpsmith.types import CompileStatus, Device, Record, Status, Submission, Target, Task, Verdict
from warpsmith.types.protocols import Compiler, Judge, JudgeSettings

_AT_ONCE = {Device.SIM: 1, Device.CUDA: 3}
"""Judgements at a time for each that the pool runs: on a GPU one runs while others compile."""
_WARM = ("warpsmith.judge.session",)
"""What workers load before their first job."""


class JudgeSpec(Record):
    """`kind` is a name in JUDGES; `arch` the GPU's, such as sm_90; `needle` what a scripted judge looks for."""

    kind: str = "local"
    settings: JudgeSettings
    arch: str = ""
    needle: str = ""


def connect_judge(spec: JudgeSpec) -> Workbench:
    """The judge that a spec describes. Raises UsageError for an unknown kind, InfrastructureError."""
    if spec.kind not in JUDGES:
        raise UsageError(f"unknown judge {spec.kind!r}", hint=f"choose one of: {', '.join(sorted(JUDGES))}")
    return JUDGES[spec.kind](spec)


class SharedJudge:
    """A judge for any number of threads: `at_once` of them judge at a time, each with one of its own from `make`."""

    def __init__(self, make: Callable[[], Judge], at_once: int):
        self._make = make
        # the one that was used last comes first: no more are made than are needed
        self._free: queue.LifoQueue[Judge | None] = queue.LifoQueue()
        for _ in range(at_once):
            self._free.put(None)

    def judge(self, task: Task, submission: Submission, settings: JudgeSettings) -> Verdict:
        """One verdict, once a judge is free."""
        judge = self._free.get()
        try:
            judge = judge or self._make()
            return judge.judge(task, submission, settings)
        finally:
            self._free.put(judge)


class BuildFirst:
    """Asks `judge` only about what builds, `at_once` building at a time: what does not build holds no device.

    The judge itself builds while its device is made ready, which is faster for one and wasteful for many.
    """

    def __init__(self, judge: Judge, compiler: Compiler, target: Target, at_once: int):
        self._judge, self._compiler, self._target = judge, compiler, target
        self._building = threading.Semaphore(at_once)

    def judge(self, task: Task, submission: Submission, settings: JudgeSettings) -> Verdict:
        """The judge's verdict, or that the submission does not build."""
        from warpsmith.judge.service import not_built

        with self._building:
            built = self._compiler.build(submission, self._target, task)
        if built.status is not CompileStatus.OK:
            return not_built(built, task, submission, settings)
        return self._judge.judge(task, submission, settings)


def _local(spec: JudgeSpec) -> Workbench:
    from warpsmith.compile import LocalCompiler
    from warpsmith.gpu.pool import WorkerPool
    from warpsmith.gpu.warm import WarmWorker
    from warpsmith.judge.repeating import RepeatingJudge
    from warpsmith.judge.runner.forkserver import ForkServer
    from warpsmith.judge.service import LocalJudge
    from warpsmith.sandbox import for_submissions
    from warpsmith.sandbox.process import Tree

    device = spec.settings.device
    pool, compiler, sandbox = WorkerPool(lambda: WarmWorker(Tree, _WARM)), LocalCompiler(), for_submissions()
    forks = ForkServer() if sandbox.enterable else None

    def one() -> Judge:
        judge = LocalJudge(pool, compiler, sandbox, arch=spec.arch, forks=forks)
        return RepeatingJudge(judge, pool.renew)

    def close() -> None:
        pool.close()
        if forks is not None:
            forks.close()

    shared = SharedJudge(one, _AT_ONCE[device] * max(1, pool.capacity(device)))
    target = Target(device=device, arch=spec.arch)
    return Workbench(
        judge=BuildFirst(shared, compiler, target, os.cpu_count() or 1),
        compiler=compiler,
        target=target,
        settings=spec.settings,
        limits=Limits(),
        close=close,
    )


def _scripted(spec: JudgeSpec) -> Workbench:
    """Passes what has `needle` in its sources: for tests and dry runs of the trainer itself."""

    def answer(task: Task, given: Submission, settings: JudgeSettings, calls: int) -> Verdict:
        found = any(spec.needle in text for text in given.files.values())
        return scripted_verdict(task, given, settings, Status.PASSED if found else Status.WRONG)

    return Workbench(
        judge=ScriptedJudge(answer),
        compiler=ScriptedCompiler(),
        target=Target(device=Device.SIM),
        settings=spec.settings,
        limits=Limits(),
    )


JUDGES: Mapping[str, Callable[[JudgeSpec], Workbench]] = MappingProxyType(
    {"local": _local, "scripted": _scripted}
)
"""One line a judge."""
