"""kill -9 of anybody at any moment of a judgement: the pieces that the test and `benchmarks/kills.py` share."""

import contextlib
import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from tests.judge.samples import MODEL_NEW, submission, task

from warpsmith.compile import LocalCompiler
from warpsmith.gpu.pool import WorkerPool
from warpsmith.gpu.warm import WarmWorker
from warpsmith.judge.repeating import RepeatingJudge
from warpsmith.judge.runner.forkserver import ForkServer
from warpsmith.judge.service import LocalJudge
from warpsmith.recipes.fleet import WARM
from warpsmith.sandbox import best_available
from warpsmith.sandbox.process import Tree
from warpsmith.types import Device, Status, Verdict
from warpsmith.types.protocols import Judge, JudgeSettings

HONEST = submission()
WRONG = submission(MODEL_NEW.replace("self.scale, x.numel()", "self.scale * 1.05, x.numel()"))
FAULT_OF = {
    "worker": {Status.INFRASTRUCTURE},
    "keeper": {Status.INFRASTRUCTURE},
    # in the task's own code it counts as the task's want of memory
    "referee": {Status.INFRASTRUCTURE, Status.UNSUPPORTED},
    # before it was given anything it is nobody's fault
    "candidate": {Status.INFRASTRUCTURE, Status.CRASHED},
    "forks": {Status.INFRASTRUCTURE, Status.CRASHED},
}
ROLES = tuple(FAULT_OF)
WORKERS = ("worker", "worker", "keeper", "referee", "candidate")
"""Supervisor and worker, then a keeper, then its job, the referee; what that starts is the candidate's."""
FORKS = ("forks", "forks", "candidate")
"""Supervisor and server; what that forks is the candidate's."""


@dataclass(frozen=True)
class Kill:
    """Who is killed, and how long after the judgement began. `None`: anybody."""

    role: str | None
    after_s: float
    wrong: bool
    """The judgement is of the wrong submission, not of the honest one."""

    @classmethod
    def drawn(cls, chance: random.Random) -> "Kill":
        """One at random: from a thousandth of a second to two."""
        return cls(chance.choice((*ROLES, None)), 10 ** chance.uniform(-3.0, 0.3), chance.random() < 0.5)

    def allowed(self, killed: str) -> set[Status]:
        """What the verdict may say when somebody of the role `killed` was."""
        return {Status.WRONG if self.wrong else Status.PASSED, *FAULT_OF.get(killed, ())}


@dataclass
class Ground:
    """A pool of one worker, a judge on it, and everything that it ever started."""

    judge: LocalJudge
    asking: RepeatingJudge
    """The same judge, asked again after what is nobody's fault."""
    workers: list[WarmWorker]
    forks: ForkServer
    scratch: Path
    ever: dict[int, float] = field(default_factory=dict)
    """Process numbers and when each began."""

    def family(self) -> dict[psutil.Process, str]:
        """What runs now, by role."""
        found: dict[psutil.Process, str] = {}
        for worker in self.workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                found |= _by_role(psutil.Process(worker.pid), WORKERS)
        with contextlib.suppress(psutil.NoSuchProcess):
            found |= _by_role(psutil.Process(self.forks.pid), FORKS)
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                self.ever[process.pid] = process.create_time()
        return found

    def judged(self, judge: Judge, kill: Kill) -> tuple[Verdict, str]:
        """A judgement in which somebody is killed; its verdict, and the role of who was, empty where it was over."""
        over, hit = threading.Event(), []
        killer = threading.Thread(target=self._strike, args=(kill, over, hit))
        killer.start()
        try:
            verdict = self.plain(judge, wrong=kill.wrong)
        finally:
            over.set()
            killer.join()
        return verdict, hit[0] if hit else ""

    def plain(self, judge: Judge, *, wrong: bool) -> Verdict:
        """A judgement in which nobody is killed."""
        verdict = judge.judge(task(), WRONG if wrong else HONEST, JudgeSettings(device=Device.SIM))
        self.family()
        return verdict

    def left(self) -> list[str]:
        """Processes and folders that are still there; to be asked when all was closed."""
        alive = []
        for pid, began in self.ever.items():
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                if process.create_time() == began and process.status() != psutil.STATUS_ZOMBIE:
                    alive.append(f"process {pid}: {' '.join(process.cmdline())[:80]}")
        return alive + [str(path) for path in self.scratch.iterdir()]

    def _strike(self, kill: Kill, over: threading.Event, hit: list[str]) -> None:
        if over.wait(kill.after_s):
            return
        family = [(p, role) for p, role in self.family().items() if kill.role in (None, role)]
        chosen = random.Random(len(self.ever)).choice(family) if family else None
        if chosen:
            with contextlib.suppress(psutil.NoSuchProcess):
                chosen[0].kill()
                hit.append(chosen[1])


def _by_role(process: psutil.Process, roles: tuple[str, ...]) -> dict[psutil.Process, str]:
    """The process and what is below it: one role a generation, the last for all that follow."""
    found = {process: roles[0]}
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in process.children():
            found |= _by_role(child, roles[1:] or roles)
    return found


@contextmanager
def ground(scratch: Path, caches: Path) -> Iterator[Ground]:
    """Everything started; all of it ended at the end."""
    workers: list[WarmWorker] = []

    def start() -> WarmWorker:
        workers.append(WarmWorker(Tree, WARM))
        return workers[-1]

    with ExitStack() as stack:
        pool = stack.enter_context(closing(WorkerPool(start, sim_jobs=1)))
        compiler = LocalCompiler(caches / "compile")
        forks = stack.enter_context(ForkServer())
        judge = LocalJudge(pool, compiler, best_available(), ahead=True, scratch=scratch, forks=forks)
        stack.enter_context(closing(judge))
        yield Ground(judge, RepeatingJudge(judge, pool.renew), workers, forks, scratch)
