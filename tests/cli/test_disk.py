"""Full and read-only disks: one line and status 3, nothing torn, and with space the same command goes on.

The disks are real: small tmpfs in a mount namespace of the test's own, which needs root (or its like).
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.real import JUDGE, command, environment, error_line, lay_out

from warpsmith.store import RunReader

SCRIPTED = Path(__file__).with_name("scripted_cli.py")
SCRIPTED_RUN = (
    "optimize",
    "task.py",
    "--device",
    "sim",
    "--full-size",
    "--policy",
    "scripted",
    "--out",
    "disk/run",
)


def in_namespace(script: str, folder: Path, *args: str, **env: str) -> "subprocess.CompletedProcess[str]":
    """Runs a shell script, its mounts its own, with `args` as its "$@"."""
    return subprocess.run(
        ["unshare", "--mount", "sh", "-ec", script, "sh", *args],
        cwd=folder,
        env={**environment(folder / "cache"), **env},
        capture_output=True,
        text=True,
        timeout=280,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture(autouse=True)
def mounting(tmp_path: Path) -> None:
    """Skips where this user may not mount."""
    (tmp_path / "disk").mkdir()
    try:
        tried = in_namespace("mount -t tmpfs -o size=64k tmpfs disk", tmp_path)
    except FileNotFoundError:
        pytest.skip("needs unshare of util-linux")
    if tried.returncode:
        pytest.skip(f"may not mount: {tried.stderr.strip()}")


@pytest.mark.parametrize("kib", [4, 12, 20, 28, 32, 36, 44])
def test_a_run_folder_on_a_full_disk_goes_on_once_there_is_space(tmp_path: Path, kib: int) -> None:
    lay_out(tmp_path)
    script = f"""
        mount -t tmpfs -o size={kib}k tmpfs disk
        "$@" >first.out 2>first.err || echo $? >first.rc
        mount -o remount,size=16m disk
        cp -r disk/run kept || true
        "$@" >second.out 2>second.err || echo $? >second.rc
        cp -r disk/run done
    """
    done = in_namespace(script, tmp_path, sys.executable, str(SCRIPTED), *SCRIPTED_RUN, JUDGED="judged")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "first.rc").read_text() == "3\n"
    errors = (tmp_path / "first.err").read_text()
    assert "No space left on device; free some space" in error_line(errors.replace("noise", "[noise"))
    assert (tmp_path / "first.out").read_text() == ""
    assert not (tmp_path / "second.rc").exists(), (tmp_path / "second.err").read_text()
    after = RunReader(tmp_path / "done")
    (episode,) = after.episodes()
    assert episode.turns == after.turns() and len(episode.turns) == 2
    if (tmp_path / "kept" / "manifest.json").exists():
        before = RunReader(tmp_path / "kept")
        # nothing stored is lost, and none of it was judged again
        assert after.verdicts()[: len(before.verdicts())] == before.verdicts()
    assert len(after.verdicts()) == 3
    assert (tmp_path / "done" / "solution" / "model_new.py").read_text() == "# second\n"


@pytest.mark.parametrize(
    ("setup", "env", "said"),
    [
        (
            "mount -t tmpfs -o size=64k tmpfs disk",
            {"WARPSMITH_CACHE": "disk"},
            "cannot build in the cache folder {disk}/compile: No space left on device; free some space",
        ),
        (
            "mount -t tmpfs tmpfs disk && mount -o remount,ro disk",
            {"WARPSMITH_CACHE": "disk"},
            "cannot use the cache folder {disk}: Read-only file system; set WARPSMITH_CACHE",
        ),
        (
            "mount -t tmpfs -o size=16k tmpfs disk",
            {"TMPDIR": "disk"},
            "No space left on device; free some space",
        ),
    ],
    ids=["full cache", "read-only cache", "full temporary folder"],
)
def test_a_judgement_without_space(tmp_path: Path, setup: str, env: dict[str, str], said: str) -> None:
    pytest.importorskip("torch")
    lay_out(tmp_path)
    disk = str(tmp_path / "disk")
    places = {name: disk for name in env}
    script = f'{setup}; status=0; "$@" || status=$?; ls -A disk >left; exit $status'
    done = in_namespace(script, tmp_path, *command(*JUDGE), **places)
    assert done.returncode == 3, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert (answer["status"], answer["reward"]) == ("infrastructure", None)
    assert said.format(disk=disk) in answer["detail"]
    assert said.format(disk=disk) in error_line(done.stderr)
    assert "warpsmith-judge-" not in (tmp_path / "left").read_text()


def test_a_run_folder_that_may_not_be_written(tmp_path: Path) -> None:
    lay_out(tmp_path)
    script = 'mount -t tmpfs tmpfs disk && mount -o remount,ro disk; exec "$@"'
    done = in_namespace(script, tmp_path, sys.executable, str(SCRIPTED), *SCRIPTED_RUN, JUDGED=os.devnull)
    assert done.returncode == 3
    assert "cannot create the folder disk/run: Read-only file system" in error_line(done.stderr)
    assert done.stdout == ""
