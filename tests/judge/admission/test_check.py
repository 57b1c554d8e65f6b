"""Checks of tasks through a real pool, on the simulator: every kind of task in one batch, each with its own end."""

import json
from pathlib import Path

import pytest

from warpsmith.errors import InfrastructureError
from warpsmith.gpu.local import LocalPool
from warpsmith.judge.admission.check import TaskChecker
from warpsmith.sandbox.process import Tree
from warpsmith.types import (
    CheckSettings,
    Device,
    Fitness,
    Job,
    JobOutcome,
    JobResult,
    Purpose,
    Task,
    TaskCheck,
    TaskSource,
)

TASK = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(24))
        self.idle = torch.nn.Parameter(torch.ones(3))
    def forward(self, x):
        return x * self.weight + 0 * self.idle.sum()
def get_inputs():
    return [torch.randn(6, 24)]
def get_init_inputs():
    return []
"""
HONEST = TASK.replace(" + 0 * self.idle.sum()", " + self.idle[0]").replace("torch.ones(3)", "torch.ones(1)")
FORWARD = "        return x * self.weight"
NORMALISED = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 8)
        self.norm = torch.nn.LayerNorm(8)
    def forward(self, x):
        return self.norm(self.linear(x))
def get_inputs():
    return [torch.rand(5, 16)]
def get_init_inputs():
    return []
"""
ZERO_WEIGHT = NORMALISED.replace(
    "self.norm = torch.nn.LayerNorm(8)",
    "torch.nn.init.zeros_(self.linear.weight); self.norm = torch.nn.Identity()",
)
SOFTMAX_MEAN = NORMALISED.replace("self.norm(self.linear(x))", "torch.softmax(self.linear(x), 1).mean(1)")
LARGE = HONEST.replace("torch.randn(6, 24)", "torch.randn(1 << 26, 24)")
CODES = {
    "honest": HONEST,
    "idle parameter": TASK,
    "normalised": NORMALISED,
    "segfault": HONEST.replace(FORWARD, "        import ctypes; ctypes.string_at(8)\n" + FORWARD),
    "random": HONEST.replace("x * self.weight", "x * self.weight + torch.rand(())"),
    "raises": HONEST.replace(FORWARD, "        raise ValueError('no way')\n" + FORWARD),
    "zero weight": ZERO_WEIGHT,
    "softmax mean": SOFTMAX_MEAN,
    "generator": HONEST.replace("return [torch.randn(6, 24)]", "yield torch.randn(6, 24)"),
    "package": "import a_package_that_nobody_has\n" + HONEST,
    "large": LARGE,
}


def task(name: str) -> Task:
    return Task(name=name, code=CODES[name])


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> TaskChecker:
    return TaskChecker(LocalPool(Tree), scratch=tmp_path_factory.mktemp("scratch"))


@pytest.fixture(scope="module")
def rows(checker: TaskChecker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, TaskCheck]:
    told: list[TaskCheck] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARPSMITH_CACHE", str(tmp_path_factory.mktemp("cache")))
        found = checker.check([task(n) for n in CODES], CheckSettings(device=Device.SIM), told=told.append)
    assert told == found and [row.task_name for row in found] == list(CODES)
    return {row.task_name: row for row in found}


def test_a_sound_task_is_fit_and_its_memory_is_told(rows: dict[str, TaskCheck]) -> None:
    row = rows["honest"]
    assert (row.fitness, row.problems, row.flags, row.notes) == (Fitness.FIT, (), (), ())
    assert (row.parameters, row.parameters_examined) == (2, 2)
    assert row.estimate is not None and row.machine is not None
    sizes = (row.estimate.input_bytes, row.estimate.weight_bytes, row.estimate.output_bytes)
    assert sizes == (6 * 24 * 4, 25 * 4, 6 * 24 * 4)
    assert (row.estimate.eager_ms, row.estimate.compile_ms, row.estimate.headroom) == (None, None, None)


def test_parameters_that_do_not_matter_are_named(rows: dict[str, TaskCheck]) -> None:
    row = rows["idle parameter"]
    assert (row.fitness, row.flags) == (Fitness.FIT, ("parameter idle does not matter",))
    # a shift that the norm's mean takes away is not the only change that is tried
    assert rows["normalised"].flags == ()
    assert rows["normalised"].parameters_examined == 4


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("random", "random reference"),
        ("raises", "forward raised ValueError at line 9 of the task: no way"),
        ("zero weight", "ignores its inputs"),
    ],
)
def test_an_unfit_task_says_why(rows: dict[str, TaskCheck], name: str, said: str) -> None:
    row = rows[name]
    assert row.fitness is Fitness.UNFIT, row
    assert said in row.problems[0]


def test_a_task_that_ends_its_process_ends_only_its_own(rows: dict[str, TaskCheck]) -> None:
    assert rows["segfault"].fitness is Fitness.UNFIT
    assert "SIGSEGV" in rows["segfault"].problems[0]
    assert rows["large"].task_name == "large"


def test_the_mean_over_a_softmax_is_not_plainly_fit(rows: dict[str, TaskCheck]) -> None:
    assert rows["softmax mean"].problems or rows["softmax mean"].flags


def test_inputs_from_a_generator_are_drawn(rows: dict[str, TaskCheck]) -> None:
    assert (rows["generator"].fitness, rows["generator"].flags) == (Fitness.FIT, ())


def test_a_missing_package_makes_no_task_unfit(rows: dict[str, TaskCheck]) -> None:
    row = rows["package"]
    assert row.fitness is Fitness.UNSUPPORTED
    assert "a_package_that_nobody_has, which is not installed" in row.notes[0]


def test_a_large_task_is_checked_at_smaller_sizes_and_says_so(rows: dict[str, TaskCheck]) -> None:
    row = rows["large"]
    assert row.fitness is Fitness.FIT, row
    assert row.checked_hash not in (None, row.task_hash)
    assert row.estimate is not None and row.estimate.input_bytes <= 1 << 23
    assert row.estimate.full_size_elements == 2 * (24 << 26) + 25


def test_training_refuses_what_a_benchmark_flags_and_slowness_here_says_nothing(
    checker: TaskChecker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WARPSMITH_CACHE", str(tmp_path))
    training = CheckSettings(device=Device.SIM, purpose=Purpose.TRAINING)
    flagged = task("idle parameter").model_copy(update={"source": TaskSource.SYNTHESIZED})
    endless = Task(name="endless", code=HONEST.replace(FORWARD, "        while True: pass\n" + FORWARD))
    refused, slow = checker.check([flagged, endless], training, timeout_s=12.0)
    assert (refused.fitness, refused.flags) == (Fitness.UNFIT, ())
    assert refused.problems == ("parameter idle does not matter",)
    assert slow.fitness is Fitness.UNSUPPORTED and "did not end within 12 s" in slow.notes[0]


class LossyPool:
    """Its jobs end early: after `rows[i]` rows in the i-th job."""

    def __init__(self, rows: list[int]):
        self.rows, self.jobs = rows, 0

    def run(self, job: Job) -> JobResult:
        batch = json.loads((Path(job.folder) / "batch.json").read_text())
        settings = CheckSettings.model_validate(batch["settings"])
        done = [Task.model_validate(t) for t in batch["tasks"]][: self.rows[self.jobs]]
        lines = [fit(t, settings).model_dump_json() + "\n" for t in done]
        (Path(job.folder) / "rows.jsonl").write_text("".join(lines) + '{"torn')
        self.jobs += 1
        return JobResult(outcome=JobOutcome.CRASHED, exit_code=1, log_tail="it broke")


def fit(task: Task, settings: CheckSettings) -> TaskCheck:
    return TaskCheck(
        question=settings.question(task),
        task_name=task.name,
        task_hash=task.task_hash,
        source=task.source,
        device=settings.device,
        purpose=settings.purpose,
        fitness=Fitness.FIT,
    )


def tasks(count: int) -> list[Task]:
    return [Task(name=f"t{i}", code=f"# {i}") for i in range(count)]


def test_a_task_that_ends_the_whole_job_does_not_stop_the_rest(tmp_path: Path) -> None:
    pool = LossyPool([2, 0, 3])
    found = TaskChecker(pool, scratch=tmp_path).check(tasks(7), CheckSettings(device=Device.SIM))
    lost = [row.fitness is Fitness.INFRASTRUCTURE for row in found]
    assert lost == [False, False, True, True, False, False, False]
    assert [row.task_name for row in found] == [f"t{i}" for i in range(7)]
    assert "it broke" in found[2].notes[0]
    assert list(tmp_path.iterdir()) == []


def test_jobs_that_give_nothing_are_an_error(tmp_path: Path) -> None:
    pool = LossyPool([0] * 9)
    with pytest.raises(InfrastructureError, match="it broke"):
        TaskChecker(pool, scratch=tmp_path).check(tasks(9), CheckSettings(device=Device.SIM))
    assert pool.jobs == 2


@pytest.mark.gpu
def test_on_a_gpu_times_and_headroom_are_estimated() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    big = Task(name="big", code=HONEST.replace("torch.randn(6, 24)", "torch.randn(1 << 22, 24)"))
    (row,) = TaskChecker(LocalPool(Tree)).check([big], CheckSettings(device=Device.CUDA))
    assert row.fitness is Fitness.FIT and row.estimate is not None
    assert row.estimate.peak_bytes >= 2 * (24 << 24)
    assert row.estimate.eager_ms > 0 and row.estimate.compile_ms > 0
    assert row.estimate.headroom is None or 0.9 < row.estimate.headroom < 20
