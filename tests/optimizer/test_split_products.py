"""Float32 products as three in TF32, with operands cut as tensor cores cut them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.optimizer.interpreter import run_plan
from tests.optimizer.samples import task
from tests.optimizer.test_numerics import disagreement

from warpsmith.optimizer.build import Plan, make_plan, make_submission
from warpsmith.optimizer.capture import capture, load_task
from warpsmith.optimizer.library import Math, menu
from warpsmith.types import Submission

MODELS = {
    "product": ("return a[0] @ a[1]", "[torch.randn(1024, 768), torch.randn(768, 1024)]", "pass"),
    "turned": ("return a[0].t() @ a[1].t()", "[torch.randn(768, 1024), torch.randn(1024, 768)]", "pass"),
    "stack": ("return torch.bmm(*a) * 3", "[torch.randn(4, 512, 640), torch.randn(4, 640, 512)]", "pass"),
    "shared_left": ("return a[0] @ a[1]", "[torch.randn(512, 640), torch.randn(4, 640, 512)]", "pass"),
    "all_of_an_epilogue": (
        "return F.relu(self.l(a[0]) + self.w)",
        "[torch.randn(1024, 768)]",
        "self.l = nn.Linear(768, 1024); self.w = nn.Parameter(torch.randn(1024, 1024))",
    ),
    "tail": (
        "return torch.softmax(self.l(a[0]), 1)",
        "[torch.randn(1024, 768)]",
        "self.l = nn.Linear(768, 1024)",
    ),
}


def planned(folder: Path, model: tuple[str, ...], math: Math, fold: bool = False) -> tuple[object, Plan]:
    (folder / "task.py").write_text(task(*model))
    module = load_task(folder / "task.py")
    return module, make_plan(capture(module), math=math, fold=fold)


@pytest.mark.parametrize("name", MODELS)
def test_three_products_are_as_good_as_float32(name: str, tmp_path: Path) -> None:
    module, plan = planned(tmp_path, MODELS[name], Math.SPLIT)
    assert len(plan.products) == 3
    assert all(s.spec.math is Math.TF32 for s in plan.products)
    assert run_plan(module, plan) < 2e-6
    # arithmetic that rounds would be contracted by nvcc, and the rest be zero
    assert make_submission(plan).files["kernels/fused.cu"].count("= leading_bits(") >= 2


def test_one_tf32_product_is_not(tmp_path: Path) -> None:
    module, plan = planned(tmp_path, MODELS["product"], Math.TF32)
    assert run_plan(module, plan) > 2e-4


def test_weights_are_split_by_prepare(tmp_path: Path) -> None:
    module, plan = planned(tmp_path, MODELS["tail"], Math.SPLIT, fold=True)
    assert len(plan.ahead) == 1
    assert run_plan(module, plan) < 2e-6


def test_small_products_stay_whole(tmp_path: Path) -> None:
    model = ("return a[0] @ a[1]", "[torch.randn(64, 64), torch.randn(64, 64)]", "pass")
    _, plan = planned(tmp_path, model, Math.SPLIT)
    assert [s.spec.math for s in plan.products] == [Math.SPLIT]
    assert Math.SPLIT not in menu([s.spec for s in plan.products], Math.DEFAULT)
    text = make_submission(plan).files["kernels/fused.cu"]
    assert "CUBLAS_COMPUTE_32F," in text


def test_large_values_infinities_and_tiny_ones_go_through(
    tmp_path: Path, make_module: Callable[[Submission], type]
) -> None:
    model = ("return a[0] @ a[1]", "[torch.randn(1024, 768), torch.randn(768, 1024)]", "pass")
    module, plan = planned(tmp_path, model, Math.SPLIT)
    new = make_module(make_submission(plan))
    assert disagreement(module, new) < 2e-6
    x, y = torch.eye(1024, 768), torch.eye(768, 1024)
    x[0, 0], x[1, 1], x[2, 2], x[3, 3] = 3e38, float("inf"), 1e-40, float("nan")
    got, expected = new()(x, y), x @ y
    assert torch.equal(got.isfinite(), expected.isfinite())
    finite = expected.isfinite()
    assert torch.allclose(got[finite], expected[finite], rtol=1e-6, atol=0)
