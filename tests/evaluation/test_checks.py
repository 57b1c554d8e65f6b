"""The log of checks, and checks in words."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from warpsmith.errors import InfrastructureError, RunLockedError
from warpsmith.evaluation import CheckLog, check_lines, set_lines, set_summary
from warpsmith.evaluation.check_table import headline, size
from warpsmith.types import (
    CheckSettings,
    Device,
    Fitness,
    Machine,
    Purpose,
    Task,
    TaskCheck,
    TaskEstimate,
    TaskSource,
)

SETTINGS = CheckSettings(device=Device.CUDA)


def task(number: int) -> Task:
    return Task(
        name=f"task{number}",
        code=f"# {number}",
        source=TaskSource.KERNELBENCH,
        level=1 + number % 2,
        problem_id=number,
    )


def row(number: int, **fields: object) -> TaskCheck:
    t = task(number)
    values: dict[str, object] = {
        "question": SETTINGS.question(t),
        "task_name": t.name,
        "task_hash": t.task_hash,
        "source": t.source,
        "level": t.level,
        "problem_id": t.problem_id,
        "device": Device.CUDA,
        "purpose": Purpose.BENCHMARK,
        "fitness": Fitness.FIT,
    }
    return TaskCheck.model_validate(values | fields)


UNFIT = {"fitness": Fitness.UNFIT, "problems": ("the reference is random",)}
LOST = {"fitness": Fitness.INFRASTRUCTURE, "notes": ("the GPU is gone",)}
ESTIMATE = TaskEstimate(
    input_bytes=3 << 30,
    weight_bytes=1024,
    output_bytes=999,
    peak_bytes=4 << 30,
    eager_ms=2.0,
    compile_ms=1.5,
    floor_ms=0.5,
    headroom=3.0,
)


def test_rows_come_back_as_they_were_and_one_that_answers_nothing_is_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "log.jsonl"
    rows = [row(0, estimate=ESTIMATE, machine=Machine(device=Device.CUDA)), row(1, **UNFIT), row(2, **LOST)]
    with CheckLog(path) as log:
        for each in rows:
            log.append(each)
    with CheckLog(path) as log:
        assert [log.find(r.question) for r in rows] == [rows[0], rows[1], None]
        log.append(row(2))
        assert log.find(rows[2].question) == row(2)
    assert len(path.read_text().splitlines()) == 4


def test_another_question_is_not_answered(tmp_path: Path) -> None:
    with CheckLog(tmp_path / "log.jsonl") as log:
        log.append(row(0))
        for change in (
            {"purpose": Purpose.TRAINING},
            {"device": Device.SIM},
            {"compile": False},
            {"version": 0},
        ):
            assert log.find(SETTINGS.model_copy(update=change).question(task(0))) is None
        assert log.find(SETTINGS.question(task(0))) is not None


def test_a_torn_line_never_counted(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with CheckLog(path) as log:
        log.append(row(0))
    with path.open("a") as file:
        file.write(row(1).model_dump_json()[:50])
    with CheckLog(path) as log:
        assert log.find(row(1).question) is None
        log.append(row(2))
    with CheckLog(path) as log:
        assert log.find(row(0).question) and log.find(row(2).question)


def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary\nno newline")
    with pytest.raises(InfrastructureError, match=r"notes\.txt, line 1"), CheckLog(path):
        pass
    assert path.read_text() == "dear diary\nno newline"
    with pytest.raises(InfrastructureError, match="cannot open"), CheckLog(tmp_path):
        pass


def test_one_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    code = (
        "import sys, time; from pathlib import Path; from warpsmith.evaluation import CheckLog\n"
        "with CheckLog(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(RunLockedError), CheckLog(path):
            pass
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        holder.stdout.close()
    with CheckLog(path) as log:
        log.append(row(0))


@pytest.mark.parametrize(
    "fields",
    [
        {"fitness": Fitness.UNFIT},
        {"problems": ("x",)},
        {"device": Device.SIM, "estimate": ESTIMATE},
    ],
)
def test_a_record_that_contradicts_itself_is_invalid(fields: dict) -> None:
    with pytest.raises(ValidationError):
        row(0, **fields)


def test_counts_and_tables() -> None:
    rows = [row(0), row(1, flags=("an input does not matter",)), row(2, **UNFIT), row(3, **LOST)]
    assert set_summary(rows).model_dump() == {
        "tasks": 4, "fit": 2, "flagged": 1, "unfit": 1, "unsupported": 0, "infrastructure": 1,
    }  # fmt: skip
    lines = list(set_lines(rows))
    assert lines[0] == "flagged         2/1 task1: an input does not matter"
    assert lines[1] == "unfit           1/2 task2: the reference is random"
    assert lines[2] == "infrastructure  2/3 task3: the GPU is gone"
    assert [line.split()[:4] for line in lines[4:]] == [
        ["level", "1", "2", "1"],
        ["level", "2", "2", "1"],
        ["all", "4", "2", "1"],
    ]


def test_one_task_in_words() -> None:
    said = "\n".join(check_lines(row(0, estimate=ESTIMATE, machine=Machine(device=Device.CUDA, gpu="H200"))))
    assert "inputs 3 GiB, weights 1 KiB, outputs 999 B, peak 4 GiB" in said
    assert "eager 2 ms, torch.compile 1.5 ms (a few plain calls, not a measurement)" in said
    assert "byte floor 0.5 ms; the faster estimate is 3× that" in said
    assert headline(row(0, estimate=ESTIMATE)) == "fit (estimate: 3× its byte floor)"
    assert headline(row(0, **UNFIT)) == "unfit: the reference is random"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (1000 << 20, "1000 MiB"),
        (16 << 30, "16 GiB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text
