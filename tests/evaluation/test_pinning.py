"""What a manifest pins."""

import os
import subprocess
from pathlib import Path

from warpsmith.evaluation.pinning import commit_of, pins
from warpsmith.evaluation.regrading import judge_fingerprint
from warpsmith.judge.machine import torch_build
from warpsmith.types import Device


def git(folder: Path, *arguments: str) -> str:
    who = {f"GIT_{role}_{what}": "t@t" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], env={**os.environ, **who}, capture_output=True, text=True, check=True
    )  # fmt: skip
    return done.stdout.strip()


def test_the_simulator_pins_code_and_torch_and_no_gpu() -> None:
    found = pins(Device.SIM)
    assert (found.source, found.torch) == (judge_fingerprint(), torch_build()["__version__"])
    assert (found.gpus, found.driver) == ((), None)


def test_a_commit_says_whether_files_differ(tmp_path: Path) -> None:
    assert commit_of(tmp_path) is None
    git(tmp_path, "init")
    inside, other = tmp_path / "package", tmp_path / "installed"
    inside.mkdir()
    other.mkdir()
    (inside / "a.py").write_text("1\n")
    (other / "b.py").write_text("1\n")
    git(tmp_path, "add", "package")
    git(tmp_path, "commit", "-m", "one")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert commit_of(inside) == head
    assert commit_of(other) is None
    (inside / "a.py").write_text("2\n")
    assert commit_of(inside) == f"{head}-dirty"
