"""`warpsmith leaderboard` as a process, with the scripted policy and judge."""

import json
from pathlib import Path

import pytest
from tests.cli.test_regrade import TASK, warpsmith


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a finished run in `run`."""
    path = tmp_path_factory.mktemp("leaderboard")
    (path / "task.py").write_text(TASK)
    done = warpsmith(
        path, "optimize", "task.py", "--device", "sim", "--full-size", "--policy", "scripted", "--out", "run"
    )
    assert done.returncode == 0, done.stderr
    return path


def test_a_confirmed_run_is_added_once_and_shown(folder: Path) -> None:
    judged = (folder / "judged").read_text()
    done = warpsmith(folder, "leaderboard", "add", "run", "--name", "ours", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["confirmed"] is True
    assert answer["entry"]["found"]["paper"]["pass_pct"] == 100
    assert answer["entry"]["found"]["paper"]["faster_eager_pct"] is None  # the simulator measures no time
    # of two submissions only the best one is judged again
    assert len((folder / "judged").read_text()) - len(judged) == len("# second\n")
    shown = warpsmith(folder, "leaderboard", "show")
    assert "| ours | paper | 100 | – | – | – | – |" in shown.stdout
    again = warpsmith(folder, "leaderboard", "add", "run")
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)


def test_what_a_fresh_regrade_does_not_bear_out_is_refused(folder: Path) -> None:
    done = warpsmith(
        folder, "leaderboard", "add", "run", "--fresh", "--file", "other.json", "--json", SCRIPT="wrong"
    )
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout) == {
        "confirmed": False,
        "problems": ["task, sample 0: claimed as passed, found wrong"],
    }
    assert not (folder / "other.json").exists()


def test_no_run_and_no_board_are_wrong_usage(tmp_path: Path) -> None:
    for arguments in (("add", "absent"), ("show",)):
        done = warpsmith(tmp_path, "leaderboard", *arguments)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
