"""Random small graphs: no honest implementation is refused, no error above the gates is passed."""

from pathlib import Path

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.judge.inprocess import HEAD, judged

from warpsmith.judge import gates
from warpsmith.types import Status

# name -> the same step in two honest ways: torch's own, and another order or formula in float32
STEPS = {
    "scale": ("y * 1.5", "y + 0.5 * y"),
    "shift": ("y - 0.25", "-(0.25 - y)"),
    "relu": ("torch.relu(y)", "torch.where(y > 0, y, torch.zeros_like(y))"),
    "tanh": ("torch.tanh(y)", "2 * torch.sigmoid(2 * y) - 1"),
    "gelu": ("F.gelu(y)", "0.5 * y * (1 + torch.erf(y * 0.7071067811865476))"),
    "softmax": ("torch.softmax(y, -1)", "(y - y.amax(-1, True)).exp() / (y - y.amax(-1, True)).exp().sum(-1, True)"),
    "norm": ("F.layer_norm(y, y.shape[-1:])",
             "(y - y.mean(-1, True)) * ((y - y.mean(-1, True)).square().mean(-1, True) + 1e-5).rsqrt()"),
    "product": ("y @ self.w", "(y.unsqueeze(-1) * self.w).flip(-2).sum(-2)"),
    "bias": ("y + self.b", "self.b.expand_as(y) + y"),
    "square": ("y * y", "y.abs() ** 2"),
    "scan": ("y.cumsum(-1)", "y @ torch.ones(y.shape[-1], y.shape[-1]).triu()"),
    "mean": ("y - y.mean(-1, True)", "y - y.flip(-1).sum(-1, True) / y.shape[-1]"),
}  # fmt: skip
WIDTH = 16
graphs = st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=5)


class Graph(torch.nn.Module):
    def __init__(self, steps, which, seed):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.w = torch.randn(WIDTH, WIDTH, generator=generator) / 4
        self.b = torch.randn(WIDTH, generator=generator)
        self.code = [compile(STEPS[s][which], s, "eval") for s in steps]

    def forward(self, y):
        for step in self.code:
            y = eval(step, {"y": y, "self": self, "torch": torch, "F": torch.nn.functional})
        return y


@given(graphs, st.integers(0, 9999), st.booleans(), st.sampled_from([1, 9, 64]))
@settings(deadline=None, max_examples=200)
def test_another_way_to_compute_the_same_is_inside_the_gates(steps, seed, positive, rows):
    """Unless the graph itself turns its inputs' last bits over, which admission would say."""
    x = torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(seed))
    x = x.abs() if positive else x
    expected = Graph(steps, 0, seed)(x)
    jittered = Graph(steps, 0, seed)(x * (1 + 2.0**-20))
    if gates.compare(expected, jittered).scale_gate and torch.isfinite(expected).all():
        found = gates.compare(expected, Graph(steps, 1, seed)(x))
        assert found.passed, found.describe()


@given(
    graphs,
    st.integers(0, 9999),
    st.floats(1.05, 1e8),
    st.sampled_from(["one", "row", "all", "gain", "permuted"]),
)
@settings(deadline=None, max_examples=300)
def test_an_error_of_any_size_above_the_gate_is_seen(steps, seed, factor, kind):
    x = torch.randn(9, WIDTH, generator=torch.Generator().manual_seed(seed))
    e = Graph(steps, 0, seed)(x)
    (s,) = gates.summarise(e)
    if s.finite < s.count or s.rms < 1e-30:
        return
    a = e.double().clone()
    # the loosest the scale-aware gate can be at any element
    room = 1e-2 * s.rms + 1e-2 * e.double().abs() + 64 * torch.finfo(torch.float32).eps * abs(s.mean)
    sign = -1.0 if seed % 2 else 1.0
    if kind == "one":
        a[seed % 9, seed % WIDTH] += sign * factor * room[seed % 9, seed % WIDTH]
    elif kind == "row":
        a[seed % 9] += sign * factor * room[seed % 9]
    elif kind == "all":
        a += sign * factor * room
    elif kind == "gain":
        a *= 1 + sign * 0.05 * factor
    else:
        a = a.roll(1, 0)
        if not ((a - e).abs() > 1.05 * room).any():
            return
    a = a.float()
    if torch.isfinite(a).all():
        if kind == "gain" and s.std < 0.1 * abs(s.mean):
            return  # a gain of nearly equal elements is a shift: the other kinds plant those
        found = gates.compare(e, a)
        assert not found.scale_gate and found.problem is None
        assert found.mismatched_fraction > 0


TASK = """
class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn({width}, {width}) / 4)
        self.b = nn.Parameter(torch.randn({width}))

    def forward(self, y):
{lines}
        return y
"""
REST = f"\ndef get_inputs():\n    return [torch.randn(9, {WIDTH})]\n\ndef get_init_inputs():\n    return []\n"


def module(name: str, steps: list[str], which: int, planted: str = "") -> str:
    """The graph as source; `planted` is a last line."""
    lines = [f"        y = {STEPS[s][which]}" for s in steps] + ([f"        {planted}"] if planted else [])
    return HEAD + TASK.format(name=name, width=WIDTH, lines="\n".join(lines))


PLANTED = (
    "y = y.clone(); y[3, 5] += 0.05 * y.square().mean().sqrt() + 0.05 * y[3, 5].abs()",
    "y = y * 1.05",
    "y = torch.where(y < y.mean() - 2 * y.std(), y.mean(), y)",
    "y = y.roll(1, 0)",
)


@given(graphs, st.sampled_from(["", *PLANTED]))
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_whole_session_on_random_graphs(tmp_path: Path, steps: list[str], planted: str):
    found = judged(tmp_path, module("Model", steps, 0) + REST, module("ModelNew", steps, 1, planted))
    if found.status is Status.TASK_REFUSED:
        return
    if not planted:
        assert found.status is Status.PASSED, found.detail
        return
    weak = any(note.startswith("task: ") for note in found.notes)
    if not weak and planted in PLANTED[:2]:
        assert found.status is Status.WRONG


def test_the_steps_are_two_ways_of_one():
    x = torch.randn(5, WIDTH)
    for name in STEPS:
        a, b = (Graph([name], which, 1)(x) for which in (0, 1))
        assert torch.allclose(a, b, atol=1e-5)
