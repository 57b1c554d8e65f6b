"""Gates widened by what the reference itself cannot tell."""

import pytest
import torch

from warpsmith.judge.correctness import gates
from warpsmith.judge.correctness.gates import compare


def summed(x, weight, dtype):
    """A sum of many products that nearly cancel, in the order of `dtype`'s own matrix product."""
    return (x.to(dtype) @ weight.to(dtype).T).sum(dim=1, keepdim=True)


def test_the_references_own_rounding_widens_the_papers_gate_and_nothing_else():
    generator = torch.Generator().manual_seed(5)
    x, weight = (torch.randn(256, 1024, generator=generator) for _ in range(2))
    x[7] = 0.0
    x[7, :2] = torch.stack([weight.sum(0)[1], -weight.sum(0)[0]]) * 300  # cancels: near zero among thousands
    expected, oracle = summed(x, weight, torch.float32), summed(x, weight, torch.float64)
    honest = (x @ weight.sum(0))[:, None]
    assert compare(expected, honest).scale_gate
    rounding = gates.largest_errors(expected, oracle)
    assert rounding == [pytest.approx((expected.double() - oracle).abs().max().item())]
    slack = [gates.ROUNDING_FACTOR * rounding[0]]
    assert compare(expected, honest, paper_slack=slack).passed
    # beyond four times the reference's own error, and beyond the scale-aware gate, nothing changes
    off = expected.clone()
    off[7] += 1e-2 * (1 + expected[7].abs()) + 5 * rounding[0] + 1e-3
    assert not compare(expected, off, paper_slack=slack).paper_gate
    scaled = expected * 1.05
    assert not compare(expected, scaled, paper_slack=slack).scale_gate


def test_an_oracle_that_computes_something_else_is_none():
    e = torch.randn(100)
    assert gates.largest_errors(e, e.double() * 1.1) is None
    assert gates.largest_errors(e, [e.double()]) is None
    assert gates.largest_errors(e, e.double()[:50]) is None
    assert gates.largest_errors([e, 3], [e.double(), 3]) == [0.0, 0.0]
