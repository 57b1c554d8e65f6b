"""Several processes at a time: turns on a GPU, and what becomes of one that keeps its turn."""

import io
import sys
from pathlib import Path

import pytest
from tests.synthesis.small import written

from warpsmith.errors import InfrastructureError
from warpsmith.synthesis import filter_workers, filtering
from warpsmith.synthesis.asked_turns import AskedTurns
from warpsmith.synthesis.filter_workers import WorkerProcess, rows_of
from warpsmith.synthesis.filtering import FilterLog, filter_tasks
from warpsmith.synthesis.records import Reject
from warpsmith.synthesis.turns import ALONE, SHARED, GpuTurns, Until, UntilWanted
from warpsmith.types import Device

SCRIPT = Path(__file__).with_name("turning_worker.py")


def numbered(number: int, name: str = "written"):
    return written(f"return x + {number}").model_copy(update={"name": f"{name}_{number}"})


def crew(count: int, folder: Path, most_sharing: int = 2) -> list[WorkerProcess]:
    turns = GpuTurns(most_sharing)
    argv = [sys.executable, str(SCRIPT), str(folder)]
    return [WorkerProcess(Device.SIM, turns=turns, argv=argv) for _ in range(count)]


def test_one_is_alone_and_few_share(tmp_path):
    tasks = [numbered(n) for n in range(12)]
    rows = list(rows_of(tasks, crew(4, tmp_path), Until()))
    assert {row.task_hash for row in rows} == {task.task_hash for task in tasks}
    seen = {line for path in tmp_path.glob("seen-*") for line in path.read_text().splitlines()}
    # a process removes its file and says so in this order: nobody sees it beside the next one
    assert seen <= {"alone", "shared", "shared shared"} and {"alone", "shared"} <= seen


def test_one_that_keeps_its_turn_is_ended_and_the_others_wait_for_it_without_blame(tmp_path, monkeypatch):
    monkeypatch.setitem(filter_workers.TIMEOUT_S, Device.SIM, 3.0)
    tasks = [*(numbered(n) for n in range(3)), numbered(3, "hangs"), *(numbered(n) for n in range(4, 8))]
    rows = {row.task_hash: row for row in rows_of(tasks, crew(2, tmp_path), Until())}
    assert [rows[task.task_hash].rejects for task in tasks] == [*[()] * 3, (Reject.TIMED_OUT,), *[()] * 4]


def test_what_company_may_cause_is_asked_again_of_one_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(filtering, "_crew", lambda device, gpus, workers: crew(workers, tmp_path))
    tasks = [numbered(0), numbered(1, "large"), numbered(2)]
    with FilterLog(tmp_path / "seen-log.jsonl") as log:
        several = filter_tasks(tasks, log, Device.SIM, workers=2)
        assert [row.rejects for row in several] == [(), (), ()]
        assert log.rows()[-1] == several[1] and len(log.rows()) == 3
        (tmp_path / "seen-large").unlink()
        large = numbered(3, "large")
        (row,) = filter_tasks([large], log, Device.SIM, workers=1)
    assert row.rejects == (Reject.OUTSIDE_MEMORY,)


def test_time_that_is_up_says_nothing_of_a_task(tmp_path):
    until = Until()
    rows = rows_of([numbered(0), numbered(1, "hangs"), numbered(2)], crew(1, tmp_path), until)
    assert next(rows).task_hash == numbered(0).task_hash
    until.stop()
    assert list(rows) == []


def test_time_is_kept_back_only_for_who_wants_it():
    whole, first = Until(), Until(0.0)
    company = UntilWanted(whole, first)
    assert company.left_s() == float("inf")
    company.want()
    assert company.left_s() == 0.0
    ended, stopped = UntilWanted(first, whole), UntilWanted(whole, whole)
    stopped.stop()
    assert ended.left_s() == 0.0 == stopped.left_s() and whole.left_s() > 0.0


def test_processes_that_do_not_start_are_the_machines_fault():
    worker = WorkerProcess(Device.SIM, argv=[sys.executable, "-c", "raise SystemExit(4)"])
    with pytest.raises(InfrastructureError, match="ends at once"):
        list(rows_of([numbered(0)], [worker], Until()))


def test_whoever_wants_the_gpu_alone_goes_first():
    turns, now = GpuTurns(most_sharing=2), Until(0.0)
    assert turns.take(SHARED, now) and turns.take(SHARED, now)
    assert not turns.take(SHARED, now) and not turns.take(ALONE, now)
    turns.give(SHARED)
    turns.give(SHARED)
    assert turns.take(ALONE, now) and not turns.take(SHARED, now) and not turns.take(ALONE, now)
    turns.give(ALONE)
    assert turns.take(SHARED, now)


def test_a_turn_is_asked_for_and_said_to_be_over():
    said = io.StringIO()
    turns = AskedTurns(io.StringIO("go\ngo\n"), said)
    with turns.shared():
        assert said.getvalue() == "shared\n"
    with pytest.raises(ValueError, match="within"), turns.alone():
        raise ValueError("within")
    assert said.getvalue() == "shared\nover\nalone\nover\n"
    with pytest.raises(SystemExit), turns.alone():
        raise AssertionError("nobody answered")
