"""Folding into weights: equal results, and anew whenever the weights change."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.optimizer.interpreter import run_plan
from tests.optimizer.samples import task
from tests.optimizer.test_numerics import disagreement

from warpsmith.optimizer.build import Plan, make_plan, make_submission
from warpsmith.optimizer.capture import capture, load_task
from warpsmith.types import Submission

INPUTS = "[torch.randn(6, 40)]"
INIT = (
    "self.l = nn.Linear(40, 24); self.n = nn.BatchNorm1d(24); self.s = nn.Parameter(torch.rand(24) + 0.5); "
    "self.m = nn.Parameter(torch.randn(40, 24)); "
    "self.n.running_mean.uniform_(-1, 1); self.n.running_var.uniform_(0.5, 2); "
    "nn.init.uniform_(self.n.weight); nn.init.uniform_(self.n.bias)"
)
FOLDED = {
    "batch_norm": "self.n(self.l(a[0]))",
    "batch_norm_relu": "F.relu(self.n(self.l(a[0])))",
    "scale": "a[0] @ self.m * self.s",
    "chain": "F.gelu(2 - (self.l(a[0]) * self.s + 1) / 3, approximate='tanh')",
    "plain_weights": "F.relu(a[0] @ self.m * self.s - self.l.bias)",
}


def folded(folder: Path, forward: str) -> tuple[object, Plan]:
    (folder / "task.py").write_text(task(forward, INPUTS, INIT))
    module = load_task(folder / "task.py")
    return module, make_plan(capture(module), fold=True)


@pytest.mark.parametrize("name", FOLDED)
def test_scale_and_shift_leave_no_tail(name: str, tmp_path: Path) -> None:
    module, plan = folded(tmp_path, f"return {FOLDED[name]}")
    assert (len(plan.products), len(plan.launches)) == (1, 0)
    assert plan.ahead
    assert any("folded into its weights" in note for note in plan.notes)
    assert run_plan(module, plan) < 1e-6


@pytest.mark.parametrize(
    "forward",
    [
        "return F.gelu(self.n(self.l(a[0])))",
        "return self.l(a[0]) * a[0][:, :24]",
        "y = self.l(a[0]); return y * self.s, y",
        "return self.l(a[0]) * a[0].mean()",
    ],
)
def test_what_would_leave_a_tail_is_not_folded(forward: str, tmp_path: Path) -> None:
    module, plan = folded(tmp_path, forward)
    assert len(plan.launches) >= 1
    assert not any("folded into its weights" in note for note in plan.notes)
    assert run_plan(module, plan) < 1e-6


def test_prepare_follows_the_weights(tmp_path: Path, make_module: Callable[[Submission], type]) -> None:
    results = ", ".join(FOLDED.values())
    module, plan = folded(tmp_path, f"return {results}, torch.sum(a[0] @ self.m, dim=1)")
    submission = make_submission(plan)
    assert submission == make_submission(plan)
    model_new = make_module(submission)
    assert disagreement(module, model_new) < 2e-6

    torch.manual_seed(3)
    new, inputs = model_new(), module.get_inputs()
    for change in ("load", "in place", "prepare"):
        reference = module.Model().eval()
        if change == "in place":
            for tensor, fresh in zip(new.state_dict().values(), reference.state_dict().values(), strict=True):
                tensor.copy_(fresh)
        else:
            new.load_state_dict(reference.state_dict())
        if change == "prepare":
            new.prepare()
        with torch.no_grad():
            for expected, got in zip(reference(*inputs), new(*inputs), strict=True):
                assert torch.allclose(expected, got, rtol=1e-4, atol=1e-5)


def test_a_result_made_of_weights_alone_is_new_in_each_call(tmp_path: Path) -> None:
    _, plan = folded(tmp_path, "return self.s * 2, a[0] + 1")
    assert not plan.ahead
    assert "def prepare" not in make_submission(plan).files["model_new.py"]


def test_what_reads_nothing_is_not_called_weights(tmp_path: Path) -> None:
    module, plan = folded(tmp_path, "return a[0][:, :8] @ (torch.arange(64).view(8, 8).float() * 0.5)")
    assert not plan.ahead
    assert run_plan(module, plan) < 1e-6
