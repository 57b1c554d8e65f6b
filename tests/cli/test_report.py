"""`warpsmith report` and `warpsmith ci` as processes, with the scripted policy and judge."""

import json
from pathlib import Path

import pytest
from tests.cli.test_regrade import TASK, warpsmith


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
