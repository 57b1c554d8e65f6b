"""Which baselines are compiled before a run, how many side by side, and that nothing stops the run."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from warpsmith.judge.warming import Warmed, WarmingRequest
from warpsmith.recipes.ahead import compile_ahead
from warpsmith.recipes.fleet import Station
from warpsmith.types import Device, Job, JobOutcome, JobResult, Target, Task
from warpsmith.types.protocols import JudgeSettings, Menu

TASKS = [Task(name=f"t{i}", code=f"# {i}") for i in range(7)]


@dataclass
class Pool:
    """Says of each task that it was compiled, but for t1, and loses the job that holds t6."""

    requests: list[WarmingRequest] = field(default_factory=list)

    def run(self, job: Job) -> JobResult:
        request = WarmingRequest.model_validate_json(Path(job.folder, "request.json").read_text())
        self.requests.append(request)
        for name in request.names:
            folder = Path(job.folder, name)
            if (folder / "task.py").read_text() == "# 6":
                return JobResult(outcome=JobOutcome.TIMED_OUT, seconds=1.0)
            problems = {"default compile": "no"} if (folder / "task.py").read_text() == "# 1" else {}
            (folder / "warmed.json").write_text(Warmed(task="t", problems=problems).model_dump_json())
        return JobResult(outcome=JobOutcome.COMPLETED, seconds=1.0)


@dataclass
class Fleet:
    """One station."""

    pool: Pool

    def station(self) -> Station:
        return Station(
            judge=None, compiler=None, target=Target(device=Device.CUDA, arch="sm_90"), pool=self.pool
        )


def run(device: Device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Pool, list[str]]:
    monkeypatch.setenv("WARPSMITH_CACHE", str(tmp_path))
    pool, said = Pool(), []
    settings = JudgeSettings(device=device, baselines=Menu.PAPER)
    compile_ahead(TASKS, settings, Fleet(pool), at_once=3, gpus=1, told=said.append)
    return pool, said


def test_two_rounds_a_job_and_what_failed_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pool, said = run(Device.CUDA, monkeypatch, tmp_path)
    assert [len(request.names) for request in pool.requests] == [6, 1]
    assert {request.at_once for request in pool.requests} == {3}
    assert said == [
        "t: default compile not compiled ahead: no",
        "compiling baselines ahead timed_out: it said nothing",
    ]


def test_the_simulator_has_nothing_to_compile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run(Device.SIM, monkeypatch, tmp_path) == (Pool(), [])
