"""`judge --ncu` as a command: a section beside the verdict, whose exit status stays."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from warpsmith.judge.instruments.ncu import NO_GPU

SCRIPTED = Path(__file__).with_name("scripted_cli.py")
TASK = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1
def get_inputs():
    return [torch.rand(8)]
def get_init_inputs():
    return []
"""


def judge(folder: Path, *args: str, script: str = "pass") -> "subprocess.CompletedProcess[str]":
    """`judge … --ncu` with the scripted judge."""
    (folder / "task.py").write_text(TASK)
    (folder / "sub").mkdir()
    (folder / "sub" / "model_new.py").write_text("# first\n")
    environment = {**os.environ, "JUDGED": str(folder / "judged"), "SCRIPT": script, "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, str(SCRIPTED), "judge", "task.py", "sub", "--device", "sim", "--ncu", *args],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("script", "status", "said"),
    [("pass", 0, NO_GPU), ("wrong", 1, "a submission that is wrong is not profiled")],
)
def test_the_exit_status_is_the_verdicts(tmp_path: Path, script: str, status: int, said: str) -> None:
    done = judge(tmp_path, script=script)
    assert done.returncode == status, done.stderr
    assert done.stdout.splitlines()[-1] == f"  ncu        not profiled: {said}"


def test_json_has_a_key_of_its_own(tmp_path: Path) -> None:
    done = judge(tmp_path, "--json")
    answer = json.loads(done.stdout)
    assert (answer["status"], answer["ncu"]) == ("passed", {"kernels": [], "problem": NO_GPU})


def test_it_is_for_one_judgement(tmp_path: Path) -> None:
    done = judge(tmp_path, "--vary", "inputs=task,normal")
    assert done.returncode == 2 and "--ncu profiles one judgement" in done.stderr
    assert not (tmp_path / "judged").exists()
