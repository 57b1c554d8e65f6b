"""Baselines compiled ahead of judgements: several tasks' at a time on one GPU, which no timed call could bear.

A judgement has a GPU to itself, and torch.compile's first call of a task can take longer than all that is timed
there. What it compiled lies in its caches afterwards. Here that first call is made for many tasks side by side;
nothing is timed, and nothing but the caches is kept, so that a baseline's time is that of its judgement, warmed or
not.
"""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from pydantic import Field, ValidationError

from warpsmith.errors import InfrastructureError, WarpsmithError
from warpsmith.judge import task_mark
from warpsmith.judge.evidence.observer.build import lay_out
from warpsmith.judge.job import JobFolder, RefereeJob
from warpsmith.judge.referee import Starter
from warpsmith.judge.spare import referee_setup
from warpsmith.judge.timing.modes import MODES, Entry
from warpsmith.sandbox.process import run_tree
from warpsmith.store.files import refused, write_atomic
from warpsmith.store.scratch import ScratchFolder
from warpsmith.types import BaselineKind, Device, Job, JobOutcome, Record, Task
from warpsmith.types.protocols import GpuPool, JudgeSettings, Menu, Sandbox

ENTRY = "warpsmith.judge.warming:run"
ONE = "warpsmith.judge.warming:one"
TASK_LIMIT_S = 300.0
START_S = 60.0
_REQUEST, _WARMED = "request.json", "warmed.json"


class WarmingRequest(Record):
    """What a job is to compile: `names` of folders in its own, `at_once` of them at a time."""

    names: tuple[str, ...]
    at_once: int
    limit_s: float = TASK_LIMIT_S
    """For one task, in all."""


class Warmed(Record):
    """What became of one task: seconds of each baseline's first call, or why there was none."""

    task: str
    seconds: dict[str, float] = Field(default_factory=dict)
    problems: dict[str, str] = Field(default_factory=dict)


def entries(settings: JudgeSettings) -> tuple[Entry, ...]:
    """The baselines of a judgement's menu that torch.compile makes; on the simulator, which has none, eager's."""
    modes = MODES[:1] if settings.baselines is Menu.PAPER else MODES
    kind = BaselineKind.COMPILE if settings.device is Device.CUDA else BaselineKind.EAGER
    return tuple(Entry(mode, kind) for mode in modes)


def warm(
    pool: GpuPool, sandbox: Sandbox, tasks: Sequence[Task], settings: JudgeSettings, *, at_once: int
) -> Iterator[Warmed]:
    """Compiles the baselines of `tasks` on one of the pool's GPUs, which is leased for it, `at_once` side by side.

    Yields what became of each task. A task that cannot be compiled is told and harms nothing: its judgement says why.
    Raises InfrastructureError where there is no device or the job does not end.
    """
    scratch = ScratchFolder("warpsmith-warming-")
    try:
        names = [f"{number:03d}" for number in range(len(tasks))]
        for name, task in zip(names, tasks, strict=True):
            _lay_out(JobFolder(scratch.path / name), task, sandbox, settings)
        request = WarmingRequest(names=tuple(names), at_once=at_once)
        write_atomic(scratch.path / _REQUEST, request.model_dump_json())
        rounds = -(-len(tasks) // at_once)
        timeout_s = START_S + rounds * request.limit_s
        job = Job(entry=ENTRY, folder=str(scratch.path), device=settings.device, timeout_s=timeout_s)
        result = pool.run(job)
        if result.outcome is not JobOutcome.COMPLETED:
            tail = (result.log_tail.strip().splitlines() or ["it said nothing"])[-1]
            raise InfrastructureError(f"compiling baselines ahead {result.outcome.value}: {tail[:300]}")
        for name, task in zip(names, tasks, strict=True):
            yield _read(scratch.path / name / _WARMED, task.name)
    finally:
        scratch.remove()


def _lay_out(folder: JobFolder, task: Task, sandbox: Sandbox, settings: JudgeSettings) -> None:
    setup = referee_setup(settings.device, sandbox)
    job = RefereeJob(task_hash=task.task_hash, task_name=task.name, submission_hash="", settings=settings)
    try:
        for path in (folder.share, folder.baseline, Path(setup.compile_cache_dir)):
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o755)
        for path in (folder.task, folder.baseline / "task.py"):
            path.write_text(task.code)
            path.chmod(0o644)
        task_mark.lay(folder.root)
    except OSError as error:
        raise refused("lay out a task in", folder.root, error) from error
    write_atomic(folder.setup, setup.model_dump_json())
    write_atomic(folder.job, job.model_dump_json())


def _read(path: Path, task: str) -> Warmed:
    try:
        return Warmed.model_validate_json(path.read_text())
    except (OSError, ValidationError):
        return Warmed(task=task, problems={"": "its process ended without saying anything"})


# ---- in the pool's process, and below it ----------------------------------------------------------------------


def run(root: Path) -> None:
    """Each task in a process of its own; what none of them wrote is told by `warm`."""
    request = WarmingRequest.model_validate_json((root / _REQUEST).read_text())

    def compiled(name: str) -> None:
        argv = [sys.executable, "-I", "-m", "warpsmith.gpu.job", ONE, str(root / name)]
        run_tree(argv, timeout_s=request.limit_s, cwd=root / name, env=dict(os.environ))

    with ThreadPoolExecutor(request.at_once) as threads:
        list(threads.map(compiled, request.names))


def one(root: Path) -> None:
    """The first call of each baseline of one task, as its judgement will make it."""
    # runners, who are another user, read what is shared with them
    os.umask(0o022)
    folder = JobFolder(root)
    job = folder.read_job()
    with ExitStack() as stack:
        try:
            warmed = _compiled(folder, job, stack)
        except WarpsmithError as error:
            warmed = Warmed(task=job.task_name, problems={"": str(error)})
    write_atomic(root / _WARMED, warmed.model_dump_json())


def _compiled(folder: JobFolder, job: RefereeJob, stack: ExitStack) -> Warmed:
    setup = folder.read_setup()
    start = Starter(folder, setup, stack)
    chosen = entries(job.settings)
    # they load while this process does
    runners = [start.runner(f"the {entry.name} baseline", folder.baseline) for entry in chosen]
    from warpsmith.judge.session import Session

    session = Session(folder, job, lambda phase, what: None)
    lay_out(Path(setup.observer_dir), folder.observer)
    session.admit(folder.task.read_text())
    stack.callback(session.bench.close)
    seconds: dict[str, float] = {}
    problems: dict[str, str] = {}
    for entry, runner in zip(chosen, runners, strict=True):
        begun = time.monotonic()
        try:
            session.first_call(runner, entry, TASK_LIMIT_S)
            seconds[entry.name] = round(time.monotonic() - begun, 2)
        except WarpsmithError as error:
            problems[entry.name] = str(error)
        finally:
            runner.close()
    return Warmed(task=job.task_name, seconds=seconds, problems=problems)
