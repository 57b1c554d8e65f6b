"""The command line of training, as far as it needs no trainer."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.agent.loop import CODE

from warpsmith.cli import app


def run(*argv: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    status = app.run(["train", *argv])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.fixture
def task(tmp_path: Path) -> str:
    path = tmp_path / "task.py"
    path.write_text(CODE)
    return str(path)


@pytest.fixture
def model(tmp_path: Path) -> str:
    """Enough of a model's folder to be taken for one."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    return str(tmp_path / "model")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--recipe", "huge"], "unknown recipe 'huge'"),
        (["--set", "steps"], "cannot read 'steps'; give FIGURE=VALUE"),
        (["--set", "steps=0"], "steps of the recipe"),
        (["--reward", "speed"], "unknown reward 'speed'"),
        (["--speedup", "own"], "unknown speedup 'own'"),
        (["--judge", "scripted:x", "--rules", "none"], "unknown rules 'none'"),
        (["--judge", "scripted:x", "--from", "."], ". holds no run"),
    ],
)
def test_wrong_words_are_one_line(
    task: str, model: str, options: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    judge = [] if "--judge" in options else ["--judge", "scripted:x"]
    argv = ["ppo", "--tasks", task, "--model", model, "--out", str(tmp_path / "out"), *judge, *options]
    status, out, err = run(*argv, capsys=capsys)
    assert (status, out) == (2, "") and reason in err and len(err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_no_model(task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["ppo", "--tasks", task, "--model", str(tmp_path), "--out", "x", "--judge", "scripted:x"]
    status, _, err = run(*argv, capsys=capsys)
    assert status == 2 and "holds no model" in err


def test_the_trainer_that_is_not_installed_is_named(model: str, tmp_path: Path, task: str) -> None:
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['verl', 'ray'])); from warpsmith.cli import app;"
        f"sys.exit(app.run(['train', 'ppo', '--tasks', {task!r}, '--model', {model!r}, '--out', 'x',"
        " '--judge', 'scripted:x']))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert ended.returncode == 3
    assert "training needs verl, ray" in ended.stderr and "warpsmith[train]" in ended.stderr
    assert not (tmp_path / "x").exists()


def test_collecting_needs_no_trainer_and_goes_on(
    task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.training.test_collect import BAD, GOOD, handing_in

    from warpsmith.cli import wiring

    monkeypatch.setitem(wiring.POLICIES, "hand", handing_in(BAD, GOOD))
    argv = ["collect", "--tasks", task, "--policy", "hand", "--judge", "scripted:good", "--json"]
    argv += ["--out", str(tmp_path / "out"), "--samples", "2"]
    status, out, err = run(*argv, capsys=capsys)
    told = json.loads(out)
    assert status == 0 and told["figures"]["episodes"] == 4 and told["figures"]["passed"] == 1.0
    assert "agent:replayed:hand" in err
    assert "passed: 1" in (tmp_path / "out" / "report.md").read_text()
    assert run(*argv, capsys=capsys)[1:] == (out, "")
    status, _, err = run(*argv, "--no-render", capsys=capsys)
    assert status == 2 and "holds another run" in err


def test_an_unknown_policy(task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["collect", "--tasks", task, "--out", str(tmp_path / "o"), "--judge", "scripted:x", "--policy"]
    assert "unknown policy 'magic'" in run(*argv, "magic", capsys=capsys)[2]
    assert "needs --model" in run(*argv, "model", capsys=capsys)[2]
