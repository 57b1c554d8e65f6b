"""`warpsmith report` and `warpsmith ci` as processes, with the scripted policy and judge."""

import json
from pathlib import Path

import pytest
from tests.cli.test_regrade import TASK, warpsmith

from warpsmith.store import RunReader
from warpsmith.types import Device, Fitness, Purpose, TaskCheck, TaskSource


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a finished run in `run`."""
    path = tmp_path_factory.mktemp("report")
    (path / "task.py").write_text(TASK)
    done = warpsmith(
        path, "optimize", "task.py", "--device", "sim", "--full-size", "--policy", "scripted", "--out", "run"
    )
    assert done.returncode == 0, done.stderr
    return path


def test_a_run_becomes_a_page_and_tables(folder: Path) -> None:
    done = warpsmith(folder, "report", "run", "--against", "run", "--out", "page", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["tasks"], answer["passed"]) == (1, 1)
    text = (folder / "page/index.html").read_text()
    assert "wrote first" in text
    assert "within noise" in text
    assert (folder / "page/tasks.csv").read_text().count("\n") == 2


def test_a_folder_without_a_run_is_wrong_usage(tmp_path: Path) -> None:
    done = warpsmith(tmp_path, "report", ".")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_the_same_task_twice_is_refused_unless_the_runs_are_named_apart(folder: Path) -> None:
    twice = ("report", "run", "again", "--out", "both")
    done = warpsmith(
        folder,
        "optimize",
        "task.py",
        "--device",
        "sim",
        "--full-size",
        "--policy",
        "scripted",
        "--out",
        "again",
    )
    assert done.returncode == 0, done.stderr
    done = warpsmith(folder, *twice)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "is there twice" in done.stderr
    done = warpsmith(folder, *twice, "--label", "one", "--label", "two", "--against", "again", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tasks"] == 2
    text = (folder / "both/tables.md").read_text()
    assert "| all | one: paper ratios | 1 | 100.0" in text and "one: pass rate" in text
    assert warpsmith(folder, *twice, "--label", "one").returncode == 2


def test_what_is_mixed_is_refused_or_said(folder: Path) -> None:
    (folder / "other.py").write_text(TASK + "\n# another task\n")
    done = warpsmith(
        folder, "optimize", "other.py", "--device", "sim", "--full-size", "--policy", "scripted", "--rules", "paper",
        "--out", "strict",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    done = warpsmith(folder, "report", "run", "strict", "--out", "mixed")
    assert done.returncode == 2 and "scripted mixes rules: paper (1); practical (1)" in done.stderr
    done = warpsmith(folder, "report", "run", "strict", "--out", "mixed", "--mixed")
    assert done.returncode == 0 and "compare with care: scripted mixes rules" in done.stderr
    assert "scripted mixes rules" in (folder / "mixed/index.html").read_text()


def test_flagged_tasks_are_told_apart_and_what_never_ended_is_named(folder: Path) -> None:
    (task,) = {episode.task_hash for episode in RunReader(folder / "run").episodes()}
    check = TaskCheck(
        question="q", task_name="task", task_hash=task, source=TaskSource.USER_FILE, device=Device.SIM,
        purpose=Purpose.BENCHMARK, fitness=Fitness.FIT, flags=("zeros pass the paper gate",),
    )  # fmt: skip
    (folder / "checks.jsonl").write_text(check.model_dump_json() + "\n" + '{"torn')
    done = warpsmith(folder, "report", "run", "--checks", "checks.jsonl", "--out", "flagged")
    assert done.returncode == 0, done.stderr
    assert "With and without flagged tasks" in (folder / "flagged/tables.md").read_text()
    done = warpsmith(
        folder, "optimize", "task.py", "--device", "sim", "--full-size", "--policy", "scripted", "--out", "lost",
        SCRIPT="raise",
    )  # fmt: skip
    assert done.returncode == 3
    done = warpsmith(folder, "report", "lost", "--out", "none")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith("0 of 1 passed")
    assert done.stdout.splitlines()[1] == "nothing is known of 1, which count as not passed: task#0"
