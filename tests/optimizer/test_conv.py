"""Convolutions through the library, with the bias and what follows in one tail kernel."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.optimizer.interpreter import run_plan
from tests.optimizer.samples import task
from tests.optimizer.test_numerics import disagreement, plan_of

from warpsmith.optimizer.build import Plan, make_plan, make_submission
from warpsmith.optimizer.capture import capture, load_task
from warpsmith.optimizer.library import Conv, Library, Math
from warpsmith.types import Submission

LAYERS = {
    "plain": ("nn.Conv2d(4, 6, 3)", "[2, 4, 9, 8]"),
    "strided": ("nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0))", "[2, 4, 9, 8]"),
    "dilated": ("nn.Conv2d(4, 6, 3, dilation=2, bias=False)", "[2, 4, 9, 8]"),
    "same": ("nn.Conv2d(4, 6, 3, padding='same')", "[2, 4, 9, 8]"),
    "groups": ("nn.Conv2d(4, 6, 3, groups=2)", "[2, 4, 9, 8]"),
    "depthwise": ("nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False)", "[2, 4, 9, 8]"),
    "depthwise_odd": (
        "nn.Conv2d(4, 8, (3, 5), stride=(1, 2), padding=(2, 1), dilation=(2, 1), groups=4)",
        "[2, 4, 9, 11]",
    ),
    "depthwise_line": ("nn.Conv1d(4, 4, 3, padding=2, dilation=2, groups=4)", "[2, 4, 17]"),
    "pointwise": ("nn.Conv2d(4, 6, 1)", "[2, 4, 9, 8]"),
    "unbatched": ("nn.Conv2d(4, 6, 3)", "[4, 9, 8]"),
    "line": ("nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2)", "[2, 4, 17]"),
    "volume": ("nn.Conv3d(2, 3, (2, 3, 2), padding=1)", "[2, 2, 4, 5, 6]"),
    "turned": ("nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1)", "[2, 4, 5, 4]"),
    "turned_groups": ("nn.ConvTranspose2d(4, 6, (3, 2), groups=2, dilation=2, bias=False)", "[2, 4, 5, 4]"),
    "turned_line": ("nn.ConvTranspose1d(4, 6, 3, stride=3)", "[2, 4, 7]"),
    "turned_volume": ("nn.ConvTranspose3d(2, 3, (2, 3, 2), stride=(2, 1, 2))", "[1, 2, 3, 4, 3]"),
}
TAILS = ["{0}", "F.relu({0})", "torch.tanh(F.mish({0})) * 2", "{0}.mean((-2, -1))", "torch.softmax({0}, 1)"]


def model_of(names: list[str], tails: list[str]) -> tuple[str, str, str]:
    """(forward, inputs, init) of a model with one result for each layer."""
    inputs = ", ".join(f"torch.randn({LAYERS[n][1]})" for n in names)
    init = "; ".join(f"self.c{i} = {LAYERS[n][0]}" for i, n in enumerate(names))
    results = ", ".join(t.format(f"self.c{i}(a[{i}])") for i, t in enumerate(tails))
    return f"return {results},", f"[{inputs}]", init


def planned(tmp_path: Path, *model: str) -> Plan:
    return plan_of(tmp_path, task(*model))[1]


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_random_convolutions_equal_pytorch(tmp_path: Path, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(LAYERS)), min_size=2, max_size=4))
    tails = [data.draw(st.sampled_from(TAILS)) for _ in names]
    module, plan = plan_of(tmp_path, task(*model_of(names, tails)))
    assert not plan.calls
    assert run_plan(module, plan) < 1e-6


def test_every_layer_equals_pytorch_on_the_simulator(
    tmp_path: Path, make_module: Callable[[Submission], type]
) -> None:
    tails = [TAILS[i % len(TAILS)] for i in range(len(LAYERS))]
    module, plan = plan_of(tmp_path, task(*model_of(list(LAYERS), tails)))
    assert len(plan.products) == len(LAYERS)
    plan = plan.with_launches({s.name: in_two(s) for s in plan.products[::2] if s.spec.sizes[0] == 2})
    assert disagreement(module, make_module(make_submission(plan))) < 2e-6


def in_two(step: Library) -> Library:
    """The step as for a batch that is too large for one call."""
    sizes, out = ((1, *s[1:]) for s in (step.spec.sizes, step.spec.out))
    return replace(step, spec=replace(step.spec, sizes=sizes, out=out, parts=2))


def test_a_batch_too_large_for_the_descriptors_goes_in_parts(tmp_path: Path) -> None:
    plan = planned(
        tmp_path, "return self.c(a[0])", "[torch.rand(48, 64, 1024, 1024)]", "self.c = nn.Conv2d(64, 32, 1)"
    )
    (step,) = plan.products
    assert (step.spec.parts, step.spec.sizes) == (2, (24, 64, 1024, 1024))


def test_bias_norm_and_activation_are_one_tail_kernel(tmp_path: Path) -> None:
    forward = "return F.relu(self.n(self.c(a[0])))"
    init = "self.c = nn.Conv2d(3, 8, 3); self.n = nn.BatchNorm2d(8)"
    plan = planned(tmp_path, forward, "[torch.randn(2, 3, 9, 9)]", init)
    assert not plan.calls
    assert (len(plan.products), len(plan.launches)) == (1, 1)
    assert any(note.startswith("conv2d: cuDNN, [2 × 3 × 9 × 9]") for note in plan.notes)


@pytest.mark.parametrize(
    ("math", "expected"),
    [
        (Math.DEFAULT, "CUDNN_DEFAULT_MATH"),
        (Math.TF32, "CUDNN_DEFAULT_MATH"),
        (Math.STRICT, "CUDNN_FMA_MATH"),
    ],
)
def test_precision_is_what_was_asked_for(math: Math, expected: str, tmp_path: Path) -> None:
    code = task("return self.c(a[0])", "[torch.randn(2, 3, 9, 9)]", "self.c = nn.Conv2d(3, 8, 3)")
    (tmp_path / "task.py").write_text(code)
    plan = make_plan(capture(load_task(tmp_path / "task.py")), math=math)
    assert f".math = {expected}" in make_submission(plan).files["kernels/fused.cu"]


def test_what_no_convolution_covers_stays_torch(tmp_path: Path) -> None:
    forward = "return F.conv2d(a[0], self.w, padding='same') + 1"
    plan = planned(
        tmp_path, forward, "[torch.randn(2, 3, 9, 9)]", "self.w = nn.Parameter(torch.randn(4, 3, 2, 2))"
    )
    assert [c.target for c in plan.calls] == ["aten.conv2d.padding"]


def test_depthwise_needs_no_library(tmp_path: Path, make_module: Callable[[Submission], type]) -> None:
    init = "self.c = nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=4)"
    module, plan = plan_of(
        tmp_path, task("return F.relu(self.c(a[0]))", "[torch.randn(3, 4, 9, 10).half()]", f"{init}.half()")
    )
    assert "cudnn" not in make_submission(plan).files["kernels/fused.cu"]
    assert any(note == "conv2d: depthwise, 3 × 3 taps, 24 planes" for note in plan.notes)
    assert disagreement(module, make_module(make_submission(plan))) < 1e-3


def test_operations_are_counted() -> None:
    spec = Conv((2, 3, 9, 9), (8, 3, 3, 3), (2, 8, 7, 7), (0, 0), (1, 1), (1, 1), 1, "float32")
    assert spec.flops == 2 * (2 * 8 * 7 * 7) * (3 * 3 * 3)
