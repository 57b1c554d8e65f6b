import pytest
import torch
import torch.nn.functional as F

from warpsmith.judge.reference.recorder import OperatorCounts, faulting_operator

x = torch.rand(4, 8)
FAULTS = {
    "binary_cross_entropy": lambda: F.binary_cross_entropy(x, x),
    "embedding": lambda: F.embedding(torch.tensor([1, 0]), x),
    "index": lambda: x[torch.tensor([1, 0])],
    "gather": lambda: x.gather(1, torch.zeros(4, 1, dtype=torch.int64)),
    "nll_loss_forward": lambda: F.cross_entropy(x, torch.tensor([1, 0, 2, 3])),
}


@pytest.mark.parametrize("name", FAULTS)
def test_an_operator_that_ends_a_cuda_context_is_named(name: str) -> None:
    assert faulting_operator(FAULTS[name]).split(".")[1] == name


def test_ordinary_arithmetic_is_harmless() -> None:
    assert faulting_operator(lambda: F.layer_norm(F.gelu(x @ x.T), (4,)).softmax(0).sum()) == ""


def test_operators_are_counted() -> None:
    with OperatorCounts() as recorder:
        x.add(1).add(2).mul(3)
    assert recorder.seen == {"aten.add.Tensor": 2, "aten.mul.Tensor": 1}
