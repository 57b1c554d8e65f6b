"""Workers that stay on a real GPU: fresh contexts, faults and hangs that do not reach the next job, the self-test."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from warpsmith.gpu.devices import list_gpus
from warpsmith.gpu.pool import WorkerPool
from warpsmith.gpu.probe import stuck
from warpsmith.gpu.self_test import ENTRY as SELF_TEST
from warpsmith.gpu.warm import WarmWorker
from warpsmith.judge.repeating import known
from warpsmith.recipes.fleet import LocalFleet
from warpsmith.sandbox.process import Tree
from warpsmith.types import Device, Job, JobOutcome, Status
from warpsmith.types.protocols import JudgeSettings

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not (list_gpus() and torch.backends.cuda.is_built()), reason="needs an NVIDIA GPU"),
]

SCRIPT = "site:addsitedir"
"""An entry of the standard library that runs what `folder` wrote."""
SUM = "import torch; print(int(torch.arange(1 << 20, device='cuda').sum()))"
FAULT = (
    "import torch\nx = torch.zeros(4, device='cuda')\n"
    "x[torch.tensor([1 << 20], device='cuda')]\ntorch.cuda.synchronize()"
)
HANG = (
    "import torch\nfor _ in range(1000): torch.cuda._sleep(1 << 40)\n"
    "open('here', 'w').close()\ntorch.cuda.synchronize()"
)


@pytest.fixture
def workers() -> list[WarmWorker]:
    return []


@pytest.fixture
def pool(workers: list[WarmWorker]) -> Iterator[WorkerPool]:
    def start() -> WarmWorker:
        workers.append(WarmWorker(Tree, ("torch",)))
        return workers[-1]

    pool = WorkerPool(start)
    yield pool
    pool.close()


def job(place: Path, text: str, timeout_s: float = 120.0) -> Job:
    place.mkdir(exist_ok=True)
    # what a line of a .pth file raises is printed and passed over
    (place / "script.py").write_text(
        f"import os, traceback\ntry:\n    exec({text!r})\nexcept BaseException:\n"
        "    traceback.print_exc(); os._exit(1)\n"
    )
    (place / "script.pth").write_text("import script\n")
    return Job(entry=SCRIPT, folder=str(place), device=Device.CUDA, timeout_s=timeout_s)


def right(pool: WorkerPool, place: Path) -> None:
    """A job of the pool computes the right sum."""
    result = pool.run(job(place, SUM))
    assert (result.outcome, result.log_tail.strip()) == (
        JobOutcome.COMPLETED,
        str((1 << 20) * ((1 << 20) - 1) // 2),
    )


def test_jobs_of_one_worker_each_have_a_context_of_their_own(pool, workers, tmp_path):
    for number in range(4):
        right(pool, tmp_path / f"{number}")
    assert len(workers) <= pool.capacity(Device.CUDA)
    for worker in workers:
        # the worker itself never touches the GPU: a fork could not use it then
        links = [link for process in _below(worker) for link in _links(process.pid)]
        assert links and not any(link.startswith("/dev/nvidia") for link in links)


def test_the_self_test_passes_and_says_so(pool, tmp_path):
    result = pool.run(Job(entry=SELF_TEST, folder=str(tmp_path), device=Device.CUDA, timeout_s=120))
    assert result.outcome is JobOutcome.COMPLETED, result.log_tail
    assert (tmp_path / "self_test").exists()


def test_an_illegal_access_ends_its_job_and_the_next_is_right(pool, workers, tmp_path):
    result = pool.run(job(tmp_path / "fault", FAULT))
    assert result.outcome is JobOutcome.CRASHED and "CUDA error" in result.log_tail
    for number in range(pool.capacity(Device.CUDA) + 1):
        right(pool, tmp_path / f"after{number}")
    assert pool.quarantined() == {} and len(workers) >= 2


def test_a_hung_kernel_is_killed_and_the_gpu_is_used_again(pool, tmp_path):
    result = pool.run(job(tmp_path / "hang", HANG, timeout_s=20.0))
    assert result.outcome is JobOutcome.TIMED_OUT and (tmp_path / "hang" / "here").exists()
    gpu = next(g for g in list_gpus() if g.index == result.device_index)
    assert stuck(gpu) == ""
    right(pool, tmp_path / "after")
    assert pool.quarantined() == {}


def test_a_worker_killed_on_the_way_loses_nothing(pool, workers, tmp_path):
    slow = (
        "import time, torch; torch.zeros(1, device='cuda'); open('here', 'w').close(); time.sleep(3); "
        + SUM.split("; ", 1)[1]
    )
    handle = pool.submit(job(tmp_path / "slow", slow))
    deadline = time.monotonic() + 120
    while not (tmp_path / "slow" / "here").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for process in _below(workers[0]):
        if "gpu.zygote" in " ".join(process.cmdline()):
            os.kill(process.pid, signal.SIGKILL)
            break
    result = handle.result(240)
    assert result.outcome is JobOutcome.COMPLETED and len(result.lost) == 1


def test_a_known_kernel_is_judged_by_the_fleet(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPSMITH_CACHE", str(tmp_path / "cache"))
    with LocalFleet(Device.CUDA, 1) as fleet:
        station = fleet.station()
        for _ in range(3):
            verdict = station.judge.judge(*known(), JudgeSettings(device=Device.CUDA, timed_calls=10))
            assert verdict.status is Status.PASSED, verdict.detail
            assert verdict.speedup is not None


def _below(worker: WarmWorker) -> list[psutil.Process]:
    top = psutil.Process(worker.pid)
    return [top, *top.children(recursive=True)]


def _links(pid: int) -> list[str]:
    return [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
