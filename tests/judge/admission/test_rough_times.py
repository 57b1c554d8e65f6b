"""torch.compile beside other checks: compiled without the GPU, run with it alone."""

import contextlib

import pytest
import torch

from warpsmith.judge.admission.rough_times import Turns, compiled


class Noted(Turns):
    def __init__(self):
        self.notes = []

    @contextlib.contextmanager
    def alone(self):
        self.notes.append("alone")
        yield
        self.notes.append("over")


class Broken(torch.nn.Module):
    """Two graphs, with something that is not compiled between them."""

    def forward(self, x):
        x = x + 1
        torch._dynamo.graph_break()
        return torch.exp(x) * 2


class Raises(torch.nn.Module):
    def forward(self, x):
        return x @ x


@pytest.mark.parametrize("model", [torch.nn.Linear(4, 4), Broken(), torch.nn.Identity()])
def test_one_turn_alone_from_the_first_run_on(model):
    turns, x = Noted(), torch.randn(3, 4)
    with torch.no_grad(), compiled(model, [x], turns, "eager") as call:
        turns.notes.append("timed")
        assert torch.equal(call(), model(x))
    assert turns.notes == ["alone", "timed", "over"]


def test_what_does_not_run_leaves_no_turn_behind():
    turns = Noted()
    with pytest.raises(RuntimeError), compiled(Raises(), [torch.randn(3, 4)], turns, "eager"):
        raise AssertionError("it ran")
    assert turns.notes in ([], ["alone", "over"])
