"""Fitting a task to the simulator by a job of a pool."""

from pathlib import Path

import pytest

from warpsmith.errors import InfrastructureError, TaskRefusedError, TaskUnsupportedError
from warpsmith.gpu.local import LocalPool
from warpsmith.recipes.fit import fit
from warpsmith.sandbox.process import Tree
from warpsmith.types import Job, JobOutcome, JobResult, Task

CODE = """
import torch
N = {size}
class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1
def get_inputs():
    return [torch.rand({shape})]
def get_init_inputs():
    return []
"""


def test_a_job_says_what_fits_or_why_nothing_does() -> None:
    pytest.importorskip("torch")
    pool = LocalPool(Tree)
    small = Task(name="small", code=CODE.format(size=64, shape="N"))
    assert fit(small, pool) == small
    large = Task(name="large", code=CODE.format(size=1 << 24, shape="N"))
    made = fit(large, pool)
    assert (made.name, made.derived_from) == ("large", large.task_hash) and made.code != large.code
    with pytest.raises(TaskUnsupportedError, match="too large for the simulator"):
        fit(Task(name="fixed", code=CODE.format(size=1, shape="int('1' + '0' * 9)")), pool)
    with pytest.raises(TaskRefusedError, match="raised NameError"):
        fit(Task(name="wrong", code=CODE.format(size=1, shape="M")), pool)


class Cancelled:
    """A pool that was closed."""

    def run(self, job: Job) -> JobResult:
        assert Path(job.folder, "task.json").exists()
        return JobResult(outcome=JobOutcome.CANCELLED)


def test_a_job_that_is_lost_is_no_task_s_fault() -> None:
    with pytest.raises(InfrastructureError, match="could not be fitted to the simulator: cancelled"):
        fit(Task(name="any", code="x = 1"), Cancelled())
