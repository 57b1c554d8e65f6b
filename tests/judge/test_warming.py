"""Baselines are compiled ahead as judgements make them, and a task that cannot be is told."""

import pytest
from tests.warm import warm_pool

from warpsmith.errors import InfrastructureError
from warpsmith.judge.timing.modes import MODES
from warpsmith.judge.warming import entries, warm
from warpsmith.sandbox import best_available
from warpsmith.types import Device, Job, JobOutcome, JobResult, Task
from warpsmith.types.protocols import JudgeSettings, Menu

SIM = JudgeSettings(device=Device.SIM, baselines=Menu.PAPER)
CODE = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(8, 8)
    def forward(self, x):
        return torch.relu(self.l(x))
def get_inputs():
    return [torch.randn(4, 8)]
def get_init_inputs():
    return []
"""
TASKS = (Task(name="good", code=CODE), Task(name="bad", code=CODE.replace("torch.relu(", "torch.no_such(")))


def test_each_task_is_called_once_or_says_why_not(shared_caches, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPSMITH_CACHE", str(shared_caches))
    pool = warm_pool()
    try:
        good, bad = warm(pool, best_available(), TASKS, SIM, at_once=2)
    finally:
        pool.close()
    assert good.task == "good" and list(good.seconds) == ["default eager"] and not good.problems
    assert good.seconds["default eager"] > 0
    assert bad.task == "bad" and not bad.seconds and "no_such" in bad.problems[""]


def test_what_is_compiled_is_the_menus() -> None:
    paper, matched = (
        [e.name for e in entries(JudgeSettings(device=Device.CUDA, baselines=menu))]
        for menu in (Menu.PAPER, Menu.MATCHED)
    )
    assert paper == ["default compile"]
    assert matched == [f"{mode.name} compile" for mode in MODES]


class Lost:
    """A pool whose device is gone."""

    def run(self, job: Job) -> JobResult:
        return JobResult(outcome=JobOutcome.CRASHED, log_tail="cudaErrorNoDevice\n", seconds=0.0)


def test_a_job_that_does_not_end_is_said(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPSMITH_CACHE", str(tmp_path))
    with pytest.raises(InfrastructureError, match="compiling baselines ahead crashed: cudaErrorNoDevice"):
        list(warm(Lost(), best_available(), TASKS, SIM, at_once=2))
