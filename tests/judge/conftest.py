"""A real judge on the simulator: real compiler, real pool, the best sandbox that this machine has."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.warm import warm_pool

from warpsmith.compile import LocalCompiler
from warpsmith.gpu.pool import WorkerPool
from warpsmith.judge.runner.forkserver import ForkServer
from warpsmith.judge.service import LocalJudge
from warpsmith.sandbox import best_available
from warpsmith.types import Device, Submission, Task, Verdict
from warpsmith.types.protocols import JudgeSettings


@pytest.fixture(scope="session")
def caches(shared_caches: Path) -> Path:
    """One cache, so that the honest kernel is built once."""
    return shared_caches


@pytest.fixture(scope="session")
def pool() -> Iterator[WorkerPool]:
    """One worker that stays."""
    with closing(warm_pool()) as pool:
        yield pool


@pytest.fixture(scope="session")
def forks() -> Iterator[ForkServer]:
    """What runners are forked from."""
    with ForkServer() as forks:
        yield forks


@pytest.fixture(scope="session")
def local_judge(caches: Path, pool: WorkerPool, forks: ForkServer) -> Iterator[LocalJudge]:
    """One judge, so that each judgement finds its processes started."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARPSMITH_CACHE", str(caches))
        local = LocalJudge(pool, LocalCompiler(caches / "compile"), best_available(), ahead=True, forks=forks)
        with closing(local):
            yield local


@pytest.fixture
def judge(local_judge: LocalJudge) -> Callable[..., Verdict]:
    """`judge(task, submission, **settings) -> Verdict` on the simulator."""

    def run(a_task: Task, a_submission: Submission, **settings: object) -> Verdict:
        return local_judge.judge(a_task, a_submission, JudgeSettings(device=Device.SIM, **settings))

    return run
