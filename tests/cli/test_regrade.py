"""`warpsmith regrade` as a process, with the scripted policy and judge."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTED = Path(__file__).with_name("scripted_cli.py")
TASK = """
class Model: ...
def get_inputs(): ...
def get_init_inputs(): ...
"""


def warpsmith(folder: Path, *args: str, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPTED), *args],
        cwd=folder,
        env={**os.environ, "JUDGED": str(folder / "judged"), **extra},
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a finished run of two passed submissions in `run`."""
    (tmp_path / "task.py").write_text(TASK)
    arguments = (
        "optimize",
        "task.py",
        "--device",
        "sim",
        "--full-size",
        "--policy",
        "scripted",
        "--out",
        "run",
    )
    done = warpsmith(tmp_path, *arguments)
    assert done.returncode == 0, done.stderr
    return tmp_path


def test_no_change_is_status_0(folder: Path) -> None:
    done = warpsmith(folder, "regrade", "run", "--out", "comparison.json")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split()[:2] == ["task", "submission"]
    assert lines[-1] == "2 submissions, 0 with another status"
    assert json.loads((folder / "comparison.json").read_text())["changed"] == 0


def test_a_change_is_status_1_and_told_again_without_judging(folder: Path) -> None:
    done = warpsmith(folder, "regrade", "run", "--json", SCRIPT="wrong")
    assert done.returncode == 1, done.stderr
    answer = json.loads(done.stdout)
    assert answer["changed"] == 2
    row = answer["rows"][0]
    assert (row["old"]["status"], row["old"]["reward"]) == ("passed", 1)
    assert (row["new"]["status"], row["new"]["reward"], row["new"]["detail"]) == ("wrong", -1, "as scripted")
    judged = (folder / "judged").read_text()
    again = warpsmith(folder, "regrade", "run", "--json", SCRIPT="raise")
    assert (again.returncode, json.loads(again.stdout)) == (1, answer)
    assert (folder / "judged").read_text() == judged
    assert warpsmith(folder, "regrade", "run", "--rewards-only").returncode == 0


def test_infrastructure_is_status_3(folder: Path) -> None:
    assert warpsmith(folder, "regrade", "run", SCRIPT="broken").returncode == 3
    assert warpsmith(folder, "regrade", "run", SCRIPT="raise").returncode == 3
    assert warpsmith(folder, "regrade", "run").returncode == 0


def test_a_run_that_judged_nothing_and_no_run_at_all_are_errors(folder: Path) -> None:
    empty = ("optimize", "task.py", "--device", "sim", "--full-size", "--policy", "idle", "--out", "empty")
    warpsmith(folder, *empty)
    for arguments in (("empty",), ("empty", "--rewards-only"), ("absent",), ("absent", "--rewards-only")):
        done = warpsmith(folder, "regrade", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert "Traceback" not in done.stderr
    assert not (folder / "absent").exists()


def test_rewards_alone_judge_nothing(folder: Path) -> None:
    judged = (folder / "judged").read_text()
    done = warpsmith(folder, "regrade", "run", "--rewards-only", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert [row["new"]["milestone"] for row in answer["rows"]] == [1, 1, 1]
    assert [row["recorded"] for row in answer["rows"]] == [False, False, True]
    assert (folder / "judged").read_text() == judged
