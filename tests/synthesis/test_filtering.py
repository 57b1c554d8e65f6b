"""The filter's processes: what ends or hangs one is rejected, and a log is gone on with."""

import pytest
import torch
from tests.synthesis.small import written

from warpsmith.synthesis import filter_workers
from warpsmith.synthesis.filter_workers import WorkerProcess
from warpsmith.synthesis.filtering import FilterLog, filter_tasks, funnel
from warpsmith.synthesis.records import FILTER_VERSIONS, FilterRow, Reject
from warpsmith.types import Device

GOOD = written("return torch.exp(x)")
ENDS = written("import os; os._exit(3)")
CONSTANT = written("return torch.ones_like(x)")
OTHER = written("return torch.tanh(x) * 2", ops=("torch.tanh",))


def test_tasks_are_judged_by_one_process_and_the_log_answers_the_next_call(tmp_path):
    path = tmp_path / "filter.jsonl"
    with FilterLog(path) as log:
        rows = filter_tasks([GOOD, ENDS, CONSTANT, GOOD, OTHER], log, Device.SIM)
    assert [row.rejects for row in rows] == [(), (Reject.CRASHED,), (Reject.CONSTANT_OUTPUT,), ()]
    assert funnel(rows) == {"constant_output": 1, "crashed": 1, "passed": 2}
    lines = path.read_text().count("\n")
    with FilterLog(path) as log:
        assert filter_tasks([OTHER, CONSTANT], log, Device.SIM, budget_s=0.0) == [rows[3], rows[2]]
    assert path.read_text().count("\n") == lines


def test_a_budget_stops_before_what_is_not_known(tmp_path):
    with FilterLog(tmp_path / "filter.jsonl") as log:
        log.append(
            FilterRow(task_hash=GOOD.task_hash, device=Device.SIM, filter_version=FILTER_VERSIONS[Device.SIM])
        )
        rows = filter_tasks([GOOD, OTHER], log, Device.SIM, budget_s=0.0)
        assert [row.task_hash for row in rows] == [GOOD.task_hash]


def test_rows_of_older_gates_and_lost_ones_answer_nothing(tmp_path):
    with FilterLog(tmp_path / "filter.jsonl") as log:
        old = FilterRow(
            task_hash=GOOD.task_hash, device=Device.SIM, filter_version=FILTER_VERSIONS[Device.SIM] - 1
        )
        lost = FilterRow(task_hash=OTHER.task_hash, device=Device.SIM, filter_version=FILTER_VERSIONS[Device.SIM],
                         rejects=(Reject.INFRASTRUCTURE,))  # fmt: skip
        log.append(old)
        log.append(lost)
        assert log.find(GOOD, Device.SIM) is None and log.find(OTHER, Device.SIM) is None
        assert log.find(GOOD, Device.CUDA) is None


def test_a_task_that_hangs_is_ended(monkeypatch):
    monkeypatch.setitem(filter_workers.TIMEOUT_S, Device.SIM, 1.0)
    hangs = written("import time; time.sleep(3600)")
    with WorkerProcess(Device.SIM) as worker:
        assert worker.check(GOOD).rejects == ()
        assert worker.check(hangs).rejects == (Reject.TIMED_OUT,)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_several_processes_share_a_gpu(tmp_path):
    big = "torch.randn(batch * 512, 1024)"
    tasks = [
        written("return torch.exp(x).cumsum(1)", inputs=big),
        written("return torch.exp(x)"),
        written("return torch.tanh(x) * 2", inputs=big, ops=("torch.tanh",)),
    ]
    with FilterLog(tmp_path / "filter.jsonl") as log:
        rows = filter_tasks(tasks, log, Device.CUDA, workers=3)
    assert [row.rejects for row in rows] == [(), (Reject.OUTSIDE_TIME,), ()]
    assert all(1.0 <= row.times.eager_ms <= 100.0 and row.times.compile_ms > 0 for row in rows[::2])
    # refused by its time: nothing was compiled for it
    assert rows[1].times is None
