"""A real judge on the simulator: real compiler, real pool, the best sandbox that this machine has."""

from collections.abc import Callable
from pathlib import Path

import pytest

from warpsmith.compile import LocalCompiler
from warpsmith.gpu.local import LocalPool
from warpsmith.judge.service import LocalJudge
from warpsmith.sandbox import best_available
from warpsmith.sandbox.process import run_tree
from warpsmith.types import Device, Submission, Task, Verdict
from warpsmith.types.protocols import JudgeSettings


@pytest.fixture(scope="session")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for the session, so that the honest kernel is built once."""
    return tmp_path_factory.mktemp("caches")


@pytest.fixture
def judge(caches: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Verdict]:
    """`judge(task, submission, **settings) -> Verdict` on the simulator."""
    monkeypatch.setenv("WARPSMITH_CACHE", str(caches))
    local = LocalJudge(LocalPool(run_tree), LocalCompiler(caches / "compile"), best_available())

    def run(a_task: Task, a_submission: Submission, **settings: object) -> Verdict:
        return local.judge(a_task, a_submission, JudgeSettings(device=Device.SIM, **settings))

    return run
