"""Pooling, scans, places, losses and long rows: what is emitted equals PyTorch, over random shapes and axes."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.optimizer.interpreter import run_plan
from tests.optimizer.samples import task
from tests.optimizer.test_numerics import disagreement, plan_of

from warpsmith.optimizer import relay
from warpsmith.optimizer.build import make_submission
from warpsmith.optimizer.tune import variants
from warpsmith.sim import order
from warpsmith.types import Submission

MANY = {
    "windows": (
        "x = a[0]; return (F.max_pool2d(x, 3, 2, 1), F.max_pool1d(x.reshape(2, 3, 99), 8, 1, 4, 3),"
        " F.avg_pool2d(x.relu(), 2), F.avg_pool2d(x, 3, 2, 1, True, False), F.adaptive_avg_pool2d(x, (3, 1)),"
        " F.max_pool3d(x, 3, 1, 1), F.interpolate(x, scale_factor=2))",
        "[torch.randn(2, 3, 9, 11)]",
    ),
    "places": (
        "x, i, j, y = a; return (F.embedding(i, x), torch.gather(x, 1, j), x[i], torch.index_select(x, 1, i[0]),"
        " torch.cat((x, y * 2), 0), F.pad(x, (1, 2, 0, 3), value=2.0), torch.stack((x, x + 1), 1),"
        " F.pad(x, (2, 1), mode='reflect'), F.pad(x[None], (1, 3), mode='replicate'))",
        "[torch.randn(6, 7), torch.randint(0, 3, (2, 5)), torch.randint(0, 7, (6, 4)), torch.randn(2, 7)]",
    ),
    "argmax": (
        "x = a[0]; return (x.argmax(1), x.argmin(2), x.argmax(), x.max(1)[1], x.max(2)[0], a[1].argmin(0))",
        "[torch.randn(3, 7, 11).round(), torch.randn(1500, 8)]",
    ),
    "scans": (
        "x, m = a; return (x.cumsum(1), x.flip(1).cumsum(1).flip(1), (x * m).cumsum(1), m.cumsum(1), "
        "(x[:, :99] * 0.01 + 1).cumprod(1),"
        " torch.cat((torch.zeros_like(x.select(1, 0).unsqueeze(1)), x[:, :-1].cumsum(1)), 1),"
        " x[:, :33].flip(0).cumsum(0).flip(0), x[:, :35].reshape(3, 5, 7).cumsum(1))",
        "[torch.randn(3, 4100), torch.rand(3, 4100) > 0.5]",
    ),
    "class_losses": (
        "x, t = a; return (F.cross_entropy(x, t), F.nll_loss(x.log_softmax(1), t, reduction='none'),"
        " F.cross_entropy(x, t, reduction='sum', ignore_index=3), F.kl_div(x.log_softmax(1), (2 * x).softmax(1),"
        " reduction='batchmean'), F.triplet_margin_loss(x, x + 1, x * 2), F.cosine_similarity(x, x * x),"
        " F.huber_loss(x, x * 3), (1 - x * x).clamp(min=0).mean())",
        "[torch.randn(12, 50), torch.randint(0, 50, (12,))]",
    ),
    "halves_and_integers": (
        "x, y, i = a; return (F.max_pool1d(x, 3, 2, 1), F.avg_pool1d(y, 2), x.cumsum(1), torch.cat((x, x * 2), 1),"
        " x.argmax(2), y.sum(1), x.amax(1), torch.gather(i, 1, i), torch.cat((i, i + 1), 0), i.cumsum(0),"
        " F.pad(i, (1, 1)), F.embedding(i, x[0]))",
        "[torch.randn(2, 5, 12).half(), torch.randn(3, 64, 8).bfloat16(), torch.randint(0, 4, (4, 5))]",
    ),
    "columns": (
        "x = a[0]; return (x.sum(1), x.amax(1) * a[1], x.mean((0, 1)), a[2].sum(1), a[2].argmin(1))",
        "[torch.randn(3, 50, 64), torch.randn(64), torch.randn(3, 1024, 1375)]",
    ),
}


@pytest.mark.parametrize("name", MANY)
def test_equals_pytorch_without_a_torch_call(
    name: str, tmp_path: Path, make_module: Callable[[Submission], type]
) -> None:
    module, plan = plan_of(tmp_path, task(*MANY[name]))
    assert not plan.calls
    assert disagreement(module, make_module(make_submission(plan))) < 1e-6


SHAPES = st.lists(st.sampled_from([1, 2, 3, 4, 5, 7, 8, 12]), min_size=2, max_size=4)


@st.composite
def operators(draw: st.DrawFn) -> tuple[str, str]:
    """One operator of these families on a random shape, with what feeds and follows it."""
    shape = draw(SHAPES)
    d = draw(st.integers(0, len(shape) - 1))
    last = len(shape) - 1
    size = shape[d]
    pool = draw(st.sampled_from(["F.max_pool1d", "F.avg_pool1d"]))
    k = draw(st.integers(1, min(4, shape[last])))
    stride, pad, ceil = draw(st.integers(1, 3)), draw(st.integers(0, k // 2)), draw(st.booleans())
    flat = f"x.reshape(-1, 1, {shape[last]})"
    left, right = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    forms = [
        f"{pool}({flat}, {k}, {stride}, {pad}, ceil_mode={ceil})",
        f"torch.cat((x, y * 2, x.narrow({d}, 0, 1)), {d})",
        f"torch.stack((x, y), {d})",
        f"F.pad(x, ({left}, {right}), value=1.5)",
        f"x.argmax({d})",
        f"x.round().argmin({d}, keepdim=True)",
        f"x.max({d})[1]",
        f"x.cumsum({d})",
        f"x.flip({d}).cumsum({d}).flip({d})",
        f"(x * 0.1 + 1).cumprod({d})",
        f"torch.gather(x, {d}, (y * {size}).long().clamp(0, {size - 1}))",
        f"torch.index_select(x, {d}, torch.arange({size}, device=x.device))",
        f"torch.logsumexp(x, {d})",
        f"x.var({d}, correction=0)",
    ]
    before = draw(
        st.sampled_from(["x", "x.tanh()", "x.transpose(0, 1).contiguous().transpose(0, 1)", "x + y"])
    )
    after = draw(st.sampled_from(["{0}", "{0} * 2", "{0}.flatten()"]))
    body = f"x, y = a; x = {before}; return " + after.format(draw(st.sampled_from(forms)))
    return body, f"[torch.randn({shape}), torch.rand({shape})]"


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operators())
def test_plans_of_single_operators_equal_pytorch(tmp_path: Path, program: tuple[str, str]) -> None:
    module, plan = plan_of(tmp_path, task(*program))
    if not plan.calls:
        assert run_plan(module, plan) < 1e-5


def test_not_a_number_is_the_largest_and_the_smallest(
    tmp_path: Path, make_module: Callable[[Submission], type]
) -> None:
    _, plan = plan_of(tmp_path, task("x = a[0]; return x.argmax(1), x.argmin(1)", "[torch.randn(4, 6)]"))
    x = torch.tensor(
        [[1.0, 2, 2, -3, -3, 0], [0.0, -0.0, 0, 0, 0, 0], [0, 1, 2, 3, 4, 5], [-1, -2, -2, -1, -1, -4]]
    )
    x[2, 4], x[2, 1] = float("nan"), float("inf")
    largest, smallest = make_module(make_submission(plan))()(x)
    assert torch.equal(largest, x.argmax(1))
    assert torch.equal(smallest, x.argmin(1))


@pytest.mark.parametrize(
    "model",
    [
        ("return torch.softmax(a[0] * 2, 1)", "[torch.randn(4, 65536)]"),
        ("x = a[0]; return x / x.abs().mean(1, keepdim=True)", "[torch.randn(4, 65535)]"),
        (
            "return F.gelu(self.n(a[0]))",
            "[torch.randn(2, 8, 160, 160)]",
            "self.n = nn.GroupNorm(2, 8)",
        ),
    ],
)
def test_long_rows_are_relayed(
    model: tuple[str, ...],
    tmp_path: Path,
    make_module: Callable[[Submission], type],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relay, "MIN_BYTES", 0)
    module, plan = plan_of(tmp_path, task(*model))
    (launch,) = plan.launches
    assert launch.mode == "relay"
    relay_module = make_module(make_submission(plan))
    for thread_order in (order.FORWARD, order.REVERSE):
        with order.using(thread_order, blocks_reversed=True):
            assert disagreement(module, relay_module) < 1e-6
    staged = next(v for v in variants(plan, launch) if v.mode == "stages")
    apart = plan.with_launches({launch.name: staged})
    assert disagreement(module, make_module(make_submission(apart))) < 1e-6


def test_infinities_in_long_rows(tmp_path: Path, make_module: Callable[[Submission], type]) -> None:
    code = task(
        "x = a[0]; return torch.softmax(x, 1), torch.logsumexp(x, 1), x.log_softmax(1)",
        "[torch.randn(4, 40000)]",
    )
    module, plan = plan_of(tmp_path, code)
    x = torch.randn(4, 40000)
    x[0, :20000], x[1], x[2, 30000] = float("-inf"), float("-inf"), float("inf")
    expected = module.Model()(x)
    for e, g in zip(expected, make_module(make_submission(plan))()(x), strict=True):
        assert torch.allclose(e, g, rtol=1e-5, equal_nan=True)


def test_rows_of_any_alignment_are_read_in_vectors(tmp_path: Path) -> None:
    _, plan = plan_of(tmp_path, task("return a[0].sum(1), a[0].argmax(1)", "[torch.rand(128, 4096, 4095)]"))
    first = plan.launches[0]
    assert (first.mode, first.vec, first.kernel.rows, first.kernel.length) == (
        "columns",
        4,
        128 * 16380,
        1024,
    )


def test_an_exclusive_sum_is_one_scan(tmp_path: Path) -> None:
    forward = "x = a[0]; return torch.cat((torch.zeros_like(x[:, :1]), x[:, :-1].cumsum(1)), 1)"
    _, plan = plan_of(tmp_path, task(forward, "[torch.rand(8, 64)]"))
    assert [launch.mode for launch in plan.launches] == ["scan"]
