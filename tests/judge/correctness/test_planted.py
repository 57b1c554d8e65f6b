"""The gates alone on random small graphs; `test_random_graphs.py` has the whole session."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.judge import graphs as drawn
from tests.judge.inprocess import judged

from warpsmith.judge.correctness import gates, moments
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


def test_the_steps_are_two_ways_of_one():
    x = torch.randn(5, WIDTH)
    for name in STEPS:
        a, b = (Graph([name], which, 1)(x) for which in (0, 1))
        assert torch.allclose(a, b, atol=1e-5)


def graph(
    *steps: str, shape: tuple[int, ...], form: str, dtype: str = "float32", **other: object
) -> drawn.Graph:
    """A graph with plain choices for the rest."""
    rest = {"drawn": "normal", "choice": ("argmax", "x"), "in_place": False, "broadcast": False} | other
    return drawn.Graph(steps=steps, shape=shape, dtype=dtype, form=form, **rest)


FOUND = {
    "an intermediate of the reference overflows on large inputs": (
        graph("rms_norm", shape=(3, 5), form="bool", dtype="float16", drawn="offset"), "formulas", 0,
    ),
    "the rounding of one number is zero by luck": (graph("centre", shape=(3, 5), form="number"), "formulas", 3),
    "two terms cancel": (graph("product", shape=(9, 16), form="empty", drawn="sparse"), "tf32", 1),
    "a few moves stay inside the gate": (
        graph("product", "mean", "mean", shape=(2, 1, 9), form="empty", drawn="offset"), "tf32", 3,
    ),
    "an index chooses among values of half precision": (
        graph("tanh", "normalize", "cumsum", shape=(257,), form="dict", dtype="float16", choice=("sort", "y")),
        "float64", 3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_honest_ways_that_were_refused_once(tmp_path: Path, name: str) -> None:
    which_graph, way, which = FOUND[name]
    for _ in range(3):
        outcome = judged(tmp_path, which_graph.task(), which_graph.submission(way, which), recorded=True)
        assert outcome.status is Status.PASSED, outcome.detail


def test_a_spread_far_below_the_mean_is_measured_in_float64() -> None:
    x = 1 + 1e-12 * torch.randn(1000, dtype=torch.float64)
    assert moments.summary(x).std == pytest.approx(x.std(correction=0).item(), rel=1e-6)
    off = x.clone()
    off[3] += 1e-12
    assert not gates.compare(x, off).scale_gate
