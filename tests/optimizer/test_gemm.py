"""Matrix products through the library: right values on the simulator, epilogues, layouts without copies."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.optimizer.interpreter import run_plan
from tests.optimizer.samples import task
from tests.optimizer.test_numerics import disagreement, plan_of

from warpsmith.optimizer.build import Plan, make_submission
from warpsmith.optimizer.library import Gemm, Math
from warpsmith.types import Submission

LINEAR = ("[torch.randn(6, 40)]", "self.l = nn.Linear(40, 24)")
FORMS = {
    "matmul": ("torch.matmul({0}, {1})", "mk", "kn"),
    "left_transposed": ("torch.matmul({0}.t(), {1})", "km", "kn"),
    "right_transposed": ("{0} @ {1}.t()", "mk", "nk"),
    "both_transposed": ("{0}.t() @ {1}.t()", "km", "nk"),
    "bmm": ("torch.bmm({0}, {1})", "bmk", "bkn"),
    "bmm_transposed": ("torch.bmm({0}.transpose(1, 2), {1}.transpose(1, 2))", "bkm", "bnk"),
    "shared_right": ("torch.matmul({0}, {1})", "bmk", "kn"),
    "shared_right_of_a_turned_left": ("torch.matmul({0}.transpose(1, 2), {1})", "bkm", "kn"),
    "shared_left": ("torch.matmul({0}, {1})", "mk", "bkn"),
    "broadcast_batches": ("torch.matmul({0}.unsqueeze(1), {1}.unsqueeze(0))", "bmk", "2kn"),
    "heads": ("torch.matmul({0}.permute(1, 0, 2), {1}.permute(1, 2, 0))", "mbk", "nbk"),
    "linear_deep": ("F.linear({0}, {1})", "bmk", "nk"),
    "matrix_vector": ("torch.matmul({0}, {1})", "mk", "k"),
    "vector_matrix": ("torch.matmul({0}, {1})", "k", "kn"),
    "dot": ("torch.matmul({0}, {1})", "k", "k"),
    "of_a_triangle": ("torch.matmul(torch.tril({0}), {1})", "mk", "kn"),
    "of_a_slice": ("torch.matmul({0}[:, ::2], {1}[::2])", "mk", "kn"),
    "einsum": ("torch.einsum('bmk,kn->bmn', {0}, {1})", "bmk", "kn"),
    "addmm": ("torch.addmm({0}[:, :1], {0}, {1}, beta=0.5, alpha=2)", "mk", "kn"),
    "baddbmm": ("torch.baddbmm({0}[:, :1, :1], {0}, {1}, alpha=0.5)", "bmk", "bkn"),
}
WEIGHT = "self.w = nn.Parameter(torch.randn(6, 24))"
EPILOGUES: dict[str, tuple[str, dict[str, object]]] = {
    "bias": ("self.l(a[0])", {"bias": True}),
    "relu": ("F.relu(self.l(a[0]))", {"bias": True, "activation": "relu"}),
    "gelu": ("F.gelu(self.l(a[0]), approximate='tanh')", {"bias": True, "activation": "gelu"}),
    "scale": ("(a[0] @ self.l.weight.t()) * 3 / 2 + self.l.bias", {"alpha": 1.5, "bias": True}),
    "addend": ("(a[0] @ self.l.weight.t()) + self.w", {"beta": 1.0}),
    "all": ("F.relu(self.l(a[0]) + self.w)", {"beta": 1.0, "bias": True, "activation": "relu"}),
}
TAILS = [
    "{0}",
    "F.relu({0})",
    "F.gelu({0}, approximate='tanh')",
    "F.gelu({0})",
    "{0} * 0.5",
    "{0} / 3 + 1",
    "torch.softmax({0}, -1)",
    "{0}.sum(-1)",
    "torch.sigmoid({0}).amax(-1)",
]
OWN = {"matrix_vector", "vector_matrix", "dot"}


def planned(tmp_path: Path, *model: str) -> Plan:
    return plan_of(tmp_path, task(*model))[1]


def model_of(names: list[str], tails: list[str], sizes: dict[str, int]) -> tuple[str, str]:
    """(forward, inputs) of a model with one result for each product."""
    inputs, results = [], []
    for name, tail in zip(names, tails, strict=True):
        text, *shapes = FORMS[name]
        places = []
        for shape in shapes:
            places.append(f"a[{len(inputs)}]")
            inputs.append(f"torch.randn({[sizes.get(c) or int(c) for c in shape]})")
        product = text.format(*places)
        results.append((tail if name not in OWN else "torch.tanh({0})").format(product))
    return f"return {', '.join(results)},", f"[{', '.join(inputs)}]"


def test_every_form_equals_pytorch_on_the_simulator(
    tmp_path: Path, make_module: Callable[[Submission], type]
) -> None:
    tails = [TAILS[i % len(TAILS)] for i in range(len(FORMS))]
    forward, inputs = model_of(list(FORMS), tails, {"m": 5, "n": 7, "k": 6, "b": 3})
    forward += ", ".join(f"({EPILOGUES[name][0]})" for name in EPILOGUES).replace("a[0]", "a[-1]")
    module, plan = plan_of(
        tmp_path, task(forward, f"{inputs[:-1]}, torch.randn(6, 40)]", f"{LINEAR[1]}; {WEIGHT}")
    )
    assert not plan.calls
    assert len(plan.products) > 18
    assert disagreement(module, make_module(make_submission(plan))) < 2e-6


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_random_products_equal_pytorch(tmp_path: Path, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(FORMS)), min_size=2, max_size=4))
    tails = [data.draw(st.sampled_from(TAILS)) for _ in names]
    sizes = {c: data.draw(st.sampled_from([1, 2, 3, 4, 8, 17, 33])) for c in "mnkb"}
    module, plan = plan_of(tmp_path, task(*model_of(names, tails, sizes)))
    assert not plan.calls
    assert run_plan(module, plan) < 1e-6


@pytest.mark.parametrize("name", EPILOGUES)
def test_a_tail_that_the_epilogue_offers_is_no_kernel(name: str, tmp_path: Path) -> None:
    value, expected = EPILOGUES[name]
    module, plan = plan_of(tmp_path, task(f"return {value}", LINEAR[0], f"{LINEAR[1]}; {WEIGHT}"))
    (step,) = plan.products
    assert not plan.launches
    assert isinstance(step.spec, Gemm)
    assert {k: getattr(step.spec, k) for k in expected} == expected
    assert run_plan(module, plan) < 1e-6


@pytest.mark.parametrize(
    "forward",
    [
        "return F.gelu(self.l(a[0]))",
        "y = self.l(a[0]); return F.relu(y), y",
        "return self.l(a[0]) * 2",
        "return F.relu(self.l(a[0])) + 1",
        "return self.l(a[0]).t().contiguous() + 1",
        "return self.l(a[0]) + a[0][:, :24].contiguous()",
    ],
)
def test_what_the_epilogue_lacks_is_one_tail_kernel(forward: str, tmp_path: Path) -> None:
    plan = planned(tmp_path, forward, *LINEAR)
    (step,) = plan.products
    assert isinstance(step.spec, Gemm)
    assert (step.spec.bias, step.spec.activation, step.spec.alpha) == (False, "", 1.0)
    assert len(plan.launches) == 1


def test_views_are_read_where_they_lie(tmp_path: Path) -> None:
    forward = "return a[0][:, 2:8].transpose(0, 1) @ a[1].view(4, 5, 7)[:, 1]"
    plan = planned(tmp_path, forward, "[torch.randn(4, 10), torch.randn(4, 35)]")
    (step,) = plan.products
    assert not plan.launches
    assert [(r.buf, r.offset) for r in step.refs] == [("in_a_0", 2), ("in_a_1", 7)]
    assert isinstance(step.spec, Gemm)
    assert (step.spec.left.transposed, step.spec.left.leading) == (True, 10)
    assert (step.spec.right.transposed, step.spec.right.leading) == (False, 35)


def test_halves_are_summed_in_float(tmp_path: Path, make_module: Callable[[Submission], type]) -> None:
    forward = "return torch.tanh(a[0] @ a[1]), a[2] @ a[3], a[0] @ a[1][:, 0]"
    inputs = "[torch.randn(9, 32).half(), torch.randn(32, 8).half(), *torch.randn(2, 16, 16).bfloat16()]"
    module, plan = plan_of(tmp_path, task(forward, inputs))
    assert not plan.calls
    assert disagreement(module, make_module(make_submission(plan))) < 4e-3


def test_dtypes_beyond_the_library_stay_torch(tmp_path: Path) -> None:
    plan = planned(tmp_path, "return (a[0] @ a[1]).float() * 2", "[torch.ones(4, 4).int()] * 2")
    assert [c.target for c in plan.calls] == ["aten.matmul.default"]


def test_precision_is_what_was_asked_for(tmp_path: Path) -> None:
    from warpsmith.optimizer.build import make_plan
    from warpsmith.optimizer.capture import capture, load_task

    (tmp_path / "task.py").write_text(task("return self.l(a[0])", *LINEAR))
    for math, compute in [(Math.DEFAULT, "32F,"), (Math.STRICT, "32F,"), (Math.TF32, "32F_FAST_TF32,")]:
        plan = make_plan(capture(load_task(tmp_path / "task.py")), math=math)
        assert f"CUBLAS_COMPUTE_{compute}" in make_submission(plan).files["kernels/fused.cu"]


def test_a_product_alone_is_said_to_be_at_par(tmp_path: Path) -> None:
    plan = planned(tmp_path, "return a[0] @ a[1]", "[torch.randn(8, 8)] * 2")
    assert plan.notes[-1].startswith("library at par")
    assert make_submission(plan) is not None
