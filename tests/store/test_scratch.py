"""Scratch folders: removed when done with, swept where their process was killed, left alone where it lives."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from warpsmith.errors import InfrastructureError
from warpsmith.store.scratch import ScratchFolder

HOLDER = """
import sys, time
from pathlib import Path
from warpsmith.store.scratch import ScratchFolder
scratch = ScratchFolder("work-", Path(sys.argv[1]))
(scratch.path / "file").write_text("x")
print(scratch.path, flush=True)
if sys.argv[2] == "wait":
    time.sleep(600)
"""


def hold(parent: Path, what: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(parent), what], stdout=subprocess.PIPE, text=True
    )


def grown_old(folder: Path) -> None:
    old = time.time() - 7200
    os.utime(folder, (old, old))


def test_it_is_removed_once_and_with_all_that_is_in_it(tmp_path: Path) -> None:
    scratch = ScratchFolder("work-", tmp_path)
    assert scratch.path.name.startswith("work-") and scratch.path.stat().st_mode & 0o777 == 0o700
    (scratch.path / "below").mkdir()
    (scratch.path / "below" / "file").write_text("x")
    scratch.remove()
    scratch.remove()
    assert list(tmp_path.iterdir()) == []


def test_it_goes_with_its_object_and_with_its_process(tmp_path: Path) -> None:
    ScratchFolder("work-", tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert hold(tmp_path, "end").wait(60) == 0
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_swept_and_what_a_living_one_holds_is_not(tmp_path: Path) -> None:
    killed, living = hold(tmp_path, "wait"), hold(tmp_path, "wait")
    left, held = (Path(process.stdout.readline().strip()) for process in (killed, living))
    fresh, other = tmp_path / "work-fresh", tmp_path / "other"
    for folder in (fresh, other):
        folder.mkdir()
    try:
        killed.send_signal(signal.SIGKILL)
        killed.wait(60)
        for folder in (left, held, other):
            grown_old(folder)
        ScratchFolder("work-", tmp_path).remove()
        assert set(tmp_path.iterdir()) == {held, fresh, other}
        assert (held / "file").read_text() == "x"
    finally:
        living.kill()
        living.wait()


def test_a_link_of_that_name_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "file").write_text("x")
    link = tmp_path / "work-link"
    link.symlink_to(tmp_path / "target")
    old = time.time() - 7200
    os.utime(link, (old, old), follow_symlinks=False)
    ScratchFolder("work-", tmp_path).remove()
    assert link.is_symlink() and (tmp_path / "target" / "file").read_text() == "x"


def test_a_place_that_takes_no_folder_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match=r"cannot create a folder in .*/missing: No such file"):
        ScratchFolder("work-", tmp_path / "missing")
