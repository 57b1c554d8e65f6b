"""Random graphs of pointwise operators, reductions and views: what is emitted equals PyTorch."""

from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.optimizer.interpreter import run_plan
from tests.optimizer.samples import task
from tests.optimizer.test_numerics import disagreement, plan_of

from warpsmith.optimizer.build import make_submission
from warpsmith.types import Submission

UNARY = [
    "torch.tanh({0})",
    "torch.sigmoid({0})",
    "F.silu({0})",
    "{0} * 0.5 + 1",
    "torch.exp(-{0}.abs())",
    "F.relu({0})",
]
BINARY = ["{0} + {1}", "{0} * {1}", "torch.maximum({0}, {1})", "{0} - 0.5 * {1}"]
SAME_SHAPE = [
    "torch.softmax({0}, {d})",
    "torch.log_softmax({0}, {d})",
    "{0} - {0}.mean({d}, keepdim=True)",
    "{0} / ({0}.abs().amax({d}, keepdim=True) + 1)",
    "F.layer_norm({0}, {0}.shape[-1:])",
    "{0}.transpose(0, 1).contiguous().transpose(0, 1)",
    "{0}.flip({d})",
    "{0} + {0}.sum({d}, keepdim=True)",
    "{0}.reshape(-1).reshape({0}.shape)",
    "{0} + {0}[:, :1]",
]


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, str]:
    """(forward, inputs) of a model of up to 8 steps on tensors of one shape."""
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 4, 5, 8, 12, 33]), min_size=2, max_size=4))
    names = ["a[0]", "a[1]"]
    lines = []
    for number in range(draw(st.integers(1, 8))):
        form = draw(st.sampled_from([*UNARY, *BINARY, *SAME_SHAPE]))
        chosen = [draw(st.sampled_from(names[-4:])) for _ in range(2)]
        lines.append(f"v{number} = " + form.format(*chosen, d=draw(st.integers(0, len(shape) - 1))))
        names.append(f"v{number}")
    ends = [
        "{0}",
        "{0}.sum({d})",
        "{0}.mean()",
        "{0}.amax({d}, keepdim=True)",
        "({0}, {1})",
        "torch.logsumexp({0}, {d})",
    ]
    end = draw(st.sampled_from(ends)).format(
        names[-1], draw(st.sampled_from(names[2:])), d=draw(st.integers(0, len(shape) - 1))
    )
    lines.append(f"return {end}")
    return "; ".join(lines), f"[torch.randn({shape}), torch.rand({shape})]"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(programs())
def test_plans_equal_pytorch(tmp_path: Path, program: tuple[str, str]) -> None:
    module, plan = plan_of(tmp_path, task(*program))
    assert run_plan(module, plan) < 1e-5


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(programs())
def test_kernels_equal_pytorch(
    tmp_path: Path, make_module: Callable[[Submission], type], program: tuple[str, str]
) -> None:
    module, plan = plan_of(tmp_path, task(*program))
    submission = make_submission(plan)
    if submission is not None:
        assert disagreement(module, make_module(submission), floor=1.0) < 1e-5


def test_two_stage_plans_of_long_rows_equal_pytorch(tmp_path: Path) -> None:
    forward = (
        "x = F.layer_norm(a[0], (120000,)); y = torch.softmax(x, 1); "
        "z = F.gelu(y * 1000); return z / z.norm(dim=1, keepdim=True), z.amax(1), a[1].sum(0), torch.softmax(a[1], 0)"
    )
    module, plan = plan_of(tmp_path, task(forward, "[torch.randn(3, 120000) + 2, torch.randn(6144, 10)]"))
    assert len(plan.launches) > 8
    assert run_plan(module, plan) < 1e-5
