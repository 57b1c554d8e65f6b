"""Whole commands that are stopped on their way: nothing of them runs on, nothing stored is lost or torn."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from tests.cli.real import JUDGE, MODEL_NEW, OPTIMIZE, TASK, error_line, lay_out, start, warpsmith

from warpsmith.store import RunReader

pytest.importorskip("torch")

PATIENCE_S = 240.0
ENDLESS = MODEL_NEW.replace("        out = torch", "        while True: pass\n        out = torch")


@pytest.fixture(scope="module")
def cache(shared_caches: Path) -> Path:
    return shared_caches


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """The temporary folder of the command."""
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


def ours(scratch: Path) -> list[Path]:
    """Job folders; torch makes one of its own beside them, for caches."""
    return list(scratch.glob("warpsmith-*"))


@contextmanager
def come_to(process: "subprocess.Popen[str]", said: str) -> Iterator[list[psutil.Process]]:
    """Waits until the command says `said`, and gives the processes that it runs then."""
    assert process.stderr is not None
    try:
        deadline = time.monotonic() + PATIENCE_S
        while said not in (line := process.stderr.readline()):
            assert line and time.monotonic() < deadline, f"{said!r} was never said"
        yield psutil.Process(process.pid).children(recursive=True)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def assert_gone(children: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(children, timeout=60)
    assert alive == []


@pytest.mark.parametrize("whom", ["group", "command"])
def test_ctrl_c_in_a_judgement(tmp_path: Path, cache: Path, scratch: Path, whom: str) -> None:
    lay_out(tmp_path, model_new=ENDLESS)
    process = start(tmp_path, cache, *JUDGE, TMPDIR=str(scratch))
    with come_to(process, "correctness: ") as children:
        assert len(children) >= 2 and ours(scratch)
        # a terminal sends it to the whole group
        os.killpg(process.pid, signal.SIGINT) if whom == "group" else process.send_signal(signal.SIGINT)
        printed, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "interrupted" in error_line(errors) and printed == ""
    assert_gone(children)
    assert ours(scratch) == []


def test_ctrl_c_while_the_policy_works(tmp_path: Path, cache: Path, scratch: Path) -> None:
    lay_out(tmp_path)
    process = start(tmp_path, cache, *OPTIMIZE, TMPDIR=str(scratch))
    with come_to(process, "policy: ") as children:
        os.killpg(process.pid, signal.SIGINT)
        printed, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "the same command goes on from there" in error_line(errors) and printed == ""
    assert_gone(children)
    assert ours(scratch) == []


@pytest.mark.parametrize(("said", "stored"), [("policy: ", 0), ("correctness: ", 0), ("1. fused", 1)])
def test_a_killed_run_goes_on_and_finishes(
    tmp_path: Path, cache: Path, scratch: Path, said: str, stored: int
) -> None:
    # Progress is looked at from time to time, and a small task's checks are over before that.
    lay_out(tmp_path, task=TASK.replace("33, 17", "1024, 768"))
    process = start(tmp_path, cache, *OPTIMIZE, TMPDIR=str(scratch))
    with come_to(process, said) as children:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=PATIENCE_S)
    assert_gone(children)
    before = RunReader(tmp_path / "result")
    assert (len(before.turns()), len(before.verdicts()), before.episodes()) == (stored, stored, ())
    for folder in ours(scratch):
        os.utime(folder, (0, 0))
    done = warpsmith(tmp_path, cache, *OPTIMIZE, TMPDIR=str(scratch))
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["status"] == "passed"
    after = RunReader(tmp_path / "result")
    (episode,) = after.episodes()
    # the search's verdict and the score's, none of them paid for twice
    assert (len(after.turns()), len(after.verdicts())) == (1, 2)
    assert after.verdicts()[:stored] == before.verdicts()
    assert episode.turns == after.turns()
    # what the killed one left in the temporary folder, hours old by now, is gone as well
    assert ours(scratch) == []
