"""The folder that an agent works in: what it holds, and the start that it gives."""

import os
import subprocess
from pathlib import Path

import pytest

from warpsmith.types import Task
from warpsmith.workspace.template import environment, fixed_files, lay_out, scripts, starter

CODE = '''
import torch

class Block(torch.nn.Module):
    """Not the Model."""

class Model(torch.nn.Module):
    def __init__(self, width):
        super(Model, self).__init__()
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x):
        return self.linear(x)  # Model

batch = 4

def get_inputs():
    return [torch.randn(batch, 8)]

def get_init_inputs():
    return [8]
'''
TASK = Task(name="linear", code=CODE)
# what the published workflow runs, word for word
WORKFLOW = (
    "TORCH_CUDA_ARCH_LIST=9.0 bash utils/compile.sh",
    "sudo python3 -m utils.verification",
    "sudo python3 -m utils.profiling",
    "python -m utils.compile",
)


def test_what_is_laid_out(tmp_path: Path) -> None:
    fixed = lay_out(TASK, tmp_path, more={"binding.cpp": "// fixed\n"})
    assert (tmp_path / "model.py").read_text() == CODE
    assert (tmp_path / "binding.cpp").read_text() == "// fixed\n"
    assert (tmp_path / "kernels").is_dir()
    assert fixed == fixed_files(TASK, {"binding.cpp": "// fixed\n"})
    assert {"utils/compile.py", "utils/verification.py", "utils/profiling.py", "utils/compile.sh"} <= set(
        fixed
    )
    assert "model_new.py" not in fixed
    assert os.access(tmp_path / ".warpsmith/bin/sudo", os.X_OK)
    (tmp_path / "model_new.py").write_text("mine")
    lay_out(TASK, tmp_path)
    assert (tmp_path / "model_new.py").read_text() == "mine"


def test_the_start_is_the_reference_by_another_name() -> None:
    start = starter(CODE)
    assert "class ModelNew(torch.nn.Module):" in start and "super(ModelNew, self)" in start
    assert "return self.linear(x)  # Model\n" in start and '"""Not the Model."""' in start
    assert "get_inputs" not in start and "batch = 4" in start
    compile(start, "model_new.py", "exec")
    assert starter("not python (") == "not python ("


def test_scripts_hold_no_answers() -> None:
    for name, text in scripts().items():
        assert "import torch" not in text and "warpsmith." not in text.replace(".warpsmith", ""), name
        if name.endswith(".py"):
            compile(text, name, "exec")


@pytest.mark.parametrize("command", WORKFLOW)
def test_without_a_judge_the_workflow_says_so(tmp_path: Path, command: str) -> None:
    lay_out(TASK, tmp_path)
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("The judge cannot be reached") and done.stderr == ""
