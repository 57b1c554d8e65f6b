"""Emitted kernels, run on the simulator, against PyTorch."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.optimizer.samples import MODELS, task
from torch.utils import _pytree as pytree

from warpsmith.optimizer.build import Plan, make_plan, make_submission
from warpsmith.optimizer.capture import capture, load_task
from warpsmith.types import Submission


def plan_of(folder: Path, code: str, conservative: bool = False) -> tuple[object, Plan]:
    """The task's module and its plan."""
    path = folder / "task.py"
    path.write_text(code)
    module = load_task(path)
    return module, make_plan(capture(module), conservative=conservative)


def disagreement(module: object, model_new: type, floor: float = 0.0) -> float:
    """Root-mean-square error over (rms of the reference + floor), the largest over outputs.

    Names, shapes, dtypes and nesting must agree exactly.
    """
    torch.manual_seed(0)
    reference, new = module.Model().eval(), model_new()
    for tensor in reference.state_dict().values():
        if tensor.is_floating_point() and tensor.dim():
            tensor.uniform_(0.5, 1.5)
    new.load_state_dict(reference.state_dict())
    inputs = module.get_inputs()
    with torch.no_grad():
        expected, got = reference(*inputs), new(*inputs)
    flat, spec = pytree.tree_flatten(expected)
    flat_got, spec_got = pytree.tree_flatten(got)
    assert spec == spec_got
    worst = 0.0
    for e, g in zip(flat, flat_got, strict=True):
        assert (e.shape, e.dtype) == (g.shape, g.dtype)
        rms = e.numel() ** -0.5
        worst = max(worst, float((e - g).double().norm() * rms / (e.double().norm() * rms + floor)))
    return worst


@pytest.mark.parametrize("name", MODELS)
def test_equals_pytorch(name: str, tmp_path: Path, make_module: Callable[[Submission], type]) -> None:
    module, plan = plan_of(tmp_path, task(*MODELS[name]))
    submission = make_submission(plan)
    assert submission is not None
    assert not plan.calls
    assert disagreement(module, make_module(submission)) < (1e-3 if name == "halves" else 1e-6)


@pytest.mark.parametrize("name", ["silu_bias_layernorm_gelu", "softmax_two_stages", "matmul_sum_scale"])
def test_conservative_form_equals_pytorch(
    name: str, tmp_path: Path, make_module: Callable[[Submission], type]
) -> None:
    module, plan = plan_of(tmp_path, task(*MODELS[name]), conservative=True)
    submission = make_submission(plan)
    assert submission is not None
    assert all(launch.vec == 1 for launch in plan.launches)
    assert disagreement(module, make_module(submission)) < 1e-6


def test_nan_and_infinity_go_through(tmp_path: Path, make_module: Callable[[Submission], type]) -> None:
    code = task("return F.relu(a[0]), a[0].clamp(-1, 1), a[0].amax(1), F.mish(a[0])", "[torch.randn(4, 8)]")
    module, plan = plan_of(tmp_path, code)
    x = torch.randn(4, 8)
    x[0, 1], x[1, 2], x[2, 3] = float("nan"), float("inf"), float("-inf")
    expected = module.Model()(x)
    got = make_module(make_submission(plan))()(x)
    # -inf · 0 is where PyTorch's own mish gives NaN as well
    for e, g in zip(expected, got, strict=True):
        assert torch.allclose(e, g, equal_nan=True)


def test_other_shapes_and_scalars_are_refused(
    tmp_path: Path, make_module: Callable[[Submission], type]
) -> None:
    _, plan = plan_of(tmp_path, task("return a[0] * a[1]", "[torch.randn(4, 8), 3.5]"))
    model = make_module(make_submission(plan))()
    x = torch.randn(4, 8)
    assert torch.equal(model(x, 3.5), x * 3.5)
    with pytest.raises(ValueError, match=r"shape \(4, 8\)"):
        model(torch.randn(4, 9), 3.5)
    with pytest.raises(ValueError, match=r"3\.5"):
        model(x, 2.0)


def test_misaligned_input_is_right(tmp_path: Path, make_module: Callable[[Submission], type]) -> None:
    _, plan = plan_of(tmp_path, task("return a[0] * 2", "[torch.randn(4, 8)]"))
    x = torch.randn(33)[1:].view(4, 8)
    assert torch.equal(make_module(make_submission(plan))()(x), x * 2)
