"""`warpsmith ci` as a process, with the scripted judge."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.cli.test_regrade import TASK, warpsmith


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "task.py").write_text(TASK)
    (tmp_path / "fast").mkdir()
    (tmp_path / "fast/model_new.py").write_text("class ModelNew: ...\n")
    return tmp_path


@pytest.mark.parametrize(
    ("script", "status", "failures", "errors"),
    [("pass", 0, "0", "0"), ("wrong", 1, "1", "0"), ("broken", 3, "0", "1")],
)
def test_the_exit_status_says_what_was_found(
    repository: Path, script: str, status: int, failures: str, errors: str
) -> None:
    wanted = ("ci", "task.py=fast", "--device", "sim", "--junit", "j.xml", "--summary", "s.md")
    done = warpsmith(repository, *wanted, SCRIPT=script)
    assert done.returncode == status, done.stderr
    suite = ElementTree.parse(repository / "j.xml").find("testsuite")
    assert suite is not None
    assert (suite.get("failures"), suite.get("errors")) == (failures, errors)
    assert "task.py=fast" in (repository / "s.md").read_text()


@pytest.mark.parametrize("wrong", [("ci", "task.py"), ("ci", "task.py=fast", "--band", "2")])
def test_wrong_usage_is_one_line(repository: Path, wrong: tuple[str, ...]) -> None:
    done = warpsmith(repository, *wrong)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
