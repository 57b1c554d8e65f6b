"""Gates widened by what the reference itself cannot tell."""

from pathlib import Path

import pytest
import torch
from tests.judge.inprocess import own

from warpsmith.judge.correctness import gates
from warpsmith.judge.correctness.gates import compare
from warpsmith.judge.correctness.verifier import JITTERS, Call, Verifier
from warpsmith.judge.reference.model import Reference
from warpsmith.judge.runner import values


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


CENTRED = """    def forward(self, x):
        y = x - x.mean(-1, True)
        return y, float(y.double().sum())
"""


def verifier_of(root: Path, body: str, inputs: str) -> tuple[Verifier, Call]:
    """The verifier of a task that admission found no noise in, and a call on its own inputs."""
    code, _ = own(body, inputs)
    reference = Reference.load(code, root / "task.py", "cpu")
    model = reference.new_model(0, reference.init_args())
    return Verifier(reference, model, noise=False), Call(reference.draw_inputs, 1, 2)


def test_a_number_that_is_zero_by_luck_is_not_asked_to_be_zero(tmp_path: Path) -> None:
    """The means of these inputs are integers: nothing is rounded in the reference, nor in its float64 run."""
    verifier, call = verifier_of(tmp_path, CENTRED, "torch.randint(0, 9, (3, 5)) * 5.0")
    expected = verifier.reference.forward(verifier.model, call.inputs(), seed=2)
    assert expected[1] == 0.0
    given = values.flatten(call.inputs())[1]
    assert verifier.verify(call, (expected[0], 1e-6), given).passed
    assert verifier.noisy and 1e-6 < verifier.rounding < 1e-3
    assert not verifier.verify(call, (expected[0], 1e-2), given).scale_gate


def test_a_number_that_is_zero_by_its_nature_must_be(tmp_path: Path) -> None:
    body = "    def forward(self, x):\n        return x * 2, float((x - x).sum())\n"
    verifier, call = verifier_of(tmp_path, body, "torch.randn(3, 5)")
    (x,) = call.inputs()
    assert not verifier.verify(call, (x * 2, 1e-30), [x]).scale_gate
    assert not verifier.noisy


def test_what_is_moved_is_moved_otherwise_each_time(tmp_path: Path) -> None:
    """Drawing a call's inputs seeds the generators: moves that came after it would all be the same."""
    verifier, call = verifier_of(tmp_path, CENTRED, "torch.randn(3, 5)")
    moved = [output for output, _ in verifier._moved_pairs(call)]
    assert len(moved) == JITTERS
    assert len({bytes(y.numpy().tobytes()) for y, _ in moved}) == JITTERS
    again = [y for (y, _), _ in verifier._moved_pairs(call)]
    assert all(torch.equal(y, other) for (y, _), other in zip(moved, again, strict=True))
