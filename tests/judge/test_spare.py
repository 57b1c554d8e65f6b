"""Processes started ahead of a judgement: used once, replaced when they have died, gone when closed."""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from tests.judge.samples import KERNEL, submission, task

from warpsmith.compile import LocalCompiler
from warpsmith.gpu.local import LocalPool
from warpsmith.gpu.pool import WorkerPool
from warpsmith.judge.service import LocalJudge
from warpsmith.sandbox import best_available
from warpsmith.sandbox.process import Tree
from warpsmith.types import (
    CompileResult,
    Device,
    Job,
    JobOutcome,
    JobResult,
    Status,
    Submission,
    Target,
    Task,
    Verdict,
)
from warpsmith.types.protocols import JudgeSettings, Standby


@pytest.fixture(autouse=True)
def own_cache(caches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPSMITH_CACHE", str(caches))


def a_judge(scratch: Path, caches: Path, *, ahead: bool) -> LocalJudge:
    return LocalJudge(
        LocalPool(Tree), LocalCompiler(caches / "compile"), best_available(), ahead=ahead, scratch=scratch
    )


def processes(scratch: Path) -> list[psutil.Process]:
    """Those that were started on a job folder in `scratch`."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(str(scratch) in word for word in process.info["cmdline"] or []):
            found.append(process)
    return found


def test_each_judgement_has_a_folder_of_its_own_and_leaves_nothing(tmp_path: Path, caches: Path) -> None:
    scratch = Path(tempfile.mkdtemp(dir=tmp_path))
    judge = a_judge(scratch, caches, ahead=True)
    assert list(scratch.iterdir()) == []
    settings = JudgeSettings(device=Device.SIM)
    assert judge.judge(task(), submission(), settings).status is Status.PASSED
    deadline = time.monotonic() + 30
    while len(list(scratch.iterdir())) > 1:
        assert time.monotonic() < deadline, "an ended judgement's folder is still there"
        time.sleep(0.01)
    (spare,) = scratch.iterdir()
    assert not (spare / "job.json").exists() and list((spare / "candidate").iterdir()) == []
    for process in processes(scratch):
        process.kill()
    time.sleep(0.2)
    assert judge.judge(task(), submission(), settings).status is Status.PASSED
    assert not spare.exists()
    judge.close()
    assert list(scratch.iterdir()) == []
    assert processes(scratch) == []


def test_without_ahead_nothing_is_left_running(tmp_path: Path, caches: Path) -> None:
    scratch = Path(tempfile.mkdtemp(dir=tmp_path))
    judge = a_judge(scratch, caches, ahead=False)
    assert judge.judge(task(), submission(kernel="nonsense"), JudgeSettings(device=Device.SIM)).status is (
        Status.COMPILE_FAILED
    )
    assert list(scratch.iterdir()) == [] and processes(scratch) == []


def test_a_closed_umask_neither_breaks_isolation_nor_the_judgement(tmp_path: Path, caches: Path) -> None:
    before = os.umask(0o077)
    try:
        expected = best_available().name
        judge = a_judge(Path(tempfile.mkdtemp(dir=tmp_path)), tmp_path / "own", ahead=False)
        verdict = judge.judge(task(), submission(), JudgeSettings(device=Device.SIM))
    finally:
        os.umask(before)
    assert verdict.status is Status.PASSED, verdict.detail
    assert verdict.machine.isolation == expected == best_available().name


class WaitingCompiler:
    """A compiler that first waits for something."""

    def __init__(self, caches: Path, wait: Callable[[], None]):
        self._real, self._wait = LocalCompiler(caches / "compile"), wait

    def build(self, submission: Submission, target: Target, task: Task | None = None) -> CompileResult:
        self._wait()
        return self._real.build(submission, target)


def judged(compiler: WaitingCompiler, scratch: Path, hold_s: float) -> Verdict:
    judge = LocalJudge(LocalPool(Tree), compiler, best_available(), scratch=scratch, hold_s=hold_s)
    verdict = judge.judge(task(), submission(), JudgeSettings(device=Device.SIM))
    assert list(scratch.iterdir()) == [] and processes(scratch) == []
    return verdict


def test_the_task_is_checked_while_the_submission_compiles(tmp_path: Path, caches: Path) -> None:
    scratch = Path(tempfile.mkdtemp(dir=tmp_path))

    def checked() -> None:
        deadline = time.monotonic() + 60
        # written at the end of the task's check
        while not list(scratch.glob("*/share/state0.pt")):
            assert time.monotonic() < deadline, "the task was not checked while the compiler was at work"
            time.sleep(0.01)

    verdict = judged(WaitingCompiler(caches, checked), scratch, hold_s=120)
    assert verdict.status is Status.PASSED, verdict.detail


def test_a_slow_compiler_holds_no_device(tmp_path: Path, caches: Path) -> None:
    scratch = Path(tempfile.mkdtemp(dir=tmp_path))

    def given_back() -> None:
        deadline = time.monotonic() + 60
        while processes(scratch) or list(scratch.iterdir()):
            assert time.monotonic() < deadline, "the device is still held"
            time.sleep(0.01)

    verdict = judged(WaitingCompiler(caches, given_back), scratch, hold_s=0.2)
    assert verdict.status is Status.PASSED, verdict.detail


class NotedStandby:
    """A real one, whose results are kept."""

    def __init__(self, standby: Standby, results: list[JobResult]):
        self._standby, self._results = standby, results
        self.alive, self.close = standby.alive, standby.close

    def run(self, timeout_s: float) -> JobResult:
        self._results.append(self._standby.run(timeout_s))
        return self._results[-1]


class NotingPool:
    """A real pool that keeps how its jobs ended."""

    def __init__(self, pool: WorkerPool):
        self._pool = pool
        self.results: list[JobResult] = []

    def standby(self, job: Job) -> NotedStandby:
        return NotedStandby(self._pool.standby(job), self.results)


@pytest.mark.parametrize(
    ("kernel", "status"),
    [(KERNEL, Status.PASSED), ("nonsense", Status.COMPILE_FAILED)],
    ids=lambda it: str(it)[:8],
)
def test_a_referee_with_nothing_left_to_do_ends_by_itself(
    tmp_path: Path, caches: Path, pool: WorkerPool, kernel: str, status: Status
) -> None:
    """One that is killed makes a pool test the device and load a fresh worker."""
    noting = NotingPool(pool)

    def leased() -> None:
        deadline = time.monotonic() + 60
        # a compiler is at work when the referee has its device
        while not list(scratch.glob("*/go.json")):
            assert time.monotonic() < deadline
            time.sleep(0.01)

    scratch = Path(tempfile.mkdtemp(dir=tmp_path))
    judge = LocalJudge(
        noting, WaitingCompiler(caches, leased), best_available(), ahead=True, scratch=scratch, hold_s=60
    )
    for _ in range(3):
        assert (
            judge.judge(task(), submission(kernel=kernel), JudgeSettings(device=Device.SIM)).status is status
        )
    judge.close()
    assert [result.outcome for result in noting.results] == 3 * [JobOutcome.COMPLETED]
