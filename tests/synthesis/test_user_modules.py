"""A user's folder becomes tasks that pass the same gates."""

import pytest
from tests.synthesis.small import written

from warpsmith.errors import TaskUnreadableError, UsageError
from warpsmith.synthesis.checks import check
from warpsmith.synthesis.records import Origin
from warpsmith.synthesis.user_modules import as_it_is, mixed_in, read_folder
from warpsmith.types import Device

MODULE = '''"""Ours."""
import torch
from torch import nn


class Gated(nn.Module):
    def __init__(self, width, gain=1.0):
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.gain = gain

    def forward(self, x, mask):
        a, b = self.up(x).chunk(2, -1)
        return torch.sigmoid(a) * b * mask * self.gain


EXAMPLES = [
    {"module": "Gated", "init": {"width": 512, "gain": 0.5}, "sizes": {"batch_size": 262144},
     "inputs": {"x": "torch.randn(batch_size, 512)", "mask": "torch.rand(batch_size, 512)"}},
]
'''


def test_a_module_with_examples(tmp_path):
    (tmp_path / "gated.py").write_text(MODULE)
    operators, whole = read_folder(tmp_path, licence="MIT")
    assert whole == [] and [op.name for op in operators] == ["user.gated.Gated"]
    task = as_it_is(operators[0])
    assert "self.block = Gated(width=512, gain=0.5)" in task.code and "batch_size = 262144" in task.code
    assert "EXAMPLES" not in task.code
    assert task.provenance.origin is Origin.USER and task.provenance.licences == ("MIT",)
    row = check(task, Device.SIM, tmp_path)
    assert row.rejects == (), row.detail
    assert row.cost.flops == 2 * 262144 * 512 * 1024


def test_a_file_that_is_a_task_is_taken_as_it_is(tmp_path):
    code = written("return torch.exp(x)").code
    (tmp_path / "whole.py").write_text(code)
    operators, whole = read_folder(tmp_path)
    assert operators == [] and whole[0].code == code and whole[0].ops == ("user.whole",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("EXAMPLES = [{'module': 'Gone', 'inputs': {'x': 'torch.randn(3)'}}]", "there is no class Gone"),
        ("EXAMPLES = [{'module': 'A'}]", "EXAMPLES cannot be read"),
        ("EXAMPLES = [f()]", "EXAMPLES cannot be read"),
        ("class A: pass", "does not define Model, get_inputs, get_init_inputs"),
        ("class A(:", "not valid Python"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path, text, problem):
    (tmp_path / "a.py").write_text(text)
    with pytest.raises(TaskUnreadableError, match=problem):
        read_folder(tmp_path)


def test_an_empty_folder(tmp_path):
    with pytest.raises(UsageError, match="holds no Python files"):
        read_folder(tmp_path)


def test_a_share_of_another_set():
    own = [written("return torch.exp(x)")] * 6
    others = [written(f"return torch.exp(x) * {n}") for n in range(20)]
    chosen = mixed_in(own, others, 0.6, seed=1)
    assert len(chosen) == 9 and chosen == mixed_in(own, others, 0.6, seed=1)
    assert [others.index(task) for task in chosen] == sorted(others.index(task) for task in chosen)
    assert mixed_in(own, others[:2], 0.9, seed=1) == others[:2]
