"""float64 throughout, also where the task's code names narrower dtypes."""

from pathlib import Path

import pytest
import torch

from warpsmith.judge.reference import oracle
from warpsmith.judge.reference.model import Reference

HEAD = """
import torch
import torch.nn as nn
import torch.nn.functional as F

TABLE = torch.linspace(-1, 1, 1024).reshape(32, 32)

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(32, 32)
        self.plain = torch.randn(32)
        self.several = [torch.randn(32, 32)]

    def forward(self, x):
        {}

def get_inputs():
    return [torch.randn(32, 32)]

def get_init_inputs():
    return []
"""


def load(tmp_path: Path, body: str) -> Reference:
    return Reference.load(HEAD.format(body), tmp_path / "task.py", "cpu")


def both(tmp_path: Path, body: str) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The reference's output and the oracle's."""
    reference = load(tmp_path, body)
    state = torch.get_rng_state()
    model = reference.new_model(1, reference.init_args())
    inputs = reference.draw_inputs(2)
    found = reference.oracle(model, inputs, seed=3)
    expected = reference.forward(model, inputs, seed=3)
    torch.set_rng_state(state)
    return expected, found


EXACT = {
    "plain": "return self.layer(x)",
    "float()": "return self.layer(x).float() * self.plain",
    "zeros": "z = torch.zeros(32, 32, dtype=torch.float32); return torch.mm(z + x, self.several[0])",
    "dtype of a reduction": "return F.softmax(x @ self.several[0], dim=-1, dtype=torch.float32)",
    "to": "return x.to(torch.float32) @ self.several[0]",
    "type": "return x.type(torch.FloatTensor) @ x",
    "tensor": "return torch.tensor([[0.1]], dtype=torch.float32) * x",
    "like": "return torch.ones_like(x, dtype=torch.float32).cumsum(0) * x * 0.1",
    "module constant": "return TABLE @ x",
    "recurrent": "torch.manual_seed(0); return nn.LSTM(32, 32)(x)[0]",
    "attention": "y = x[None, None]; return F.scaled_dot_product_attention(y, y, y)",
    "complex": "return torch.fft.ifft(torch.fft.fft(x).to(torch.complex64)).real",
    "drawn": "return torch.tanh(x @ torch.randn(32, 32))",
    "drawn in place": "return torch.tanh(x @ torch.empty(32, 32).normal_())",
    "drawn alike": "return torch.tanh(x @ torch.rand_like(x))",
    "mask": "return (x > 0).float() * x / 3",
}
ROUNDED = {
    "half": ("return self.layer(x).half().float()", 1e-4, 1e-3),
    "bfloat16": ("return (x.bfloat16() @ x.to(torch.bfloat16)).float()", 1e-3, 1e-2),
    "buffer": ("b = torch.empty(32, 32, dtype=torch.float16); b.copy_(x); return b.float()", 1e-4, 1e-3),
}


@pytest.mark.parametrize("name", EXACT)
def test_nothing_falls_back_to_float32(tmp_path: Path, name: str) -> None:
    expected, found = both(tmp_path, EXACT[name])
    assert found is not None and found.dtype == torch.float64
    # It is no float32 value in a wider dtype, and agrees with the reference to float32.
    assert not torch.equal(found, found.float().double())
    assert 0 < (found - expected).norm() / found.norm() < 1e-6


@pytest.mark.parametrize("name", ROUNDED)
def test_the_references_own_narrow_steps_are_its_error(tmp_path: Path, name: str) -> None:
    body, low, high = ROUNDED[name]
    expected, found = both(tmp_path, body)
    assert found is not None and low < (found - expected).norm() / found.norm() < high


def test_memory_that_stays_narrow_is_no_oracle(tmp_path: Path) -> None:
    assert both(tmp_path, "part = TABLE[:]; part.mul_(1.0); return part @ x")[1] is None
    assert both(tmp_path, "self.several[0].copy_(x); return self.several[0] * 2")[1] is None


@pytest.mark.parametrize("raises", ["raise ValueError('no')", "return x"])
def test_model_inputs_and_default_dtype_are_as_before(tmp_path: Path, raises: str) -> None:
    body = f"x.add_(1); self.layer.weight.data.mul_(2); {raises}"
    reference = load(tmp_path, body)
    model, inputs = reference.new_model(1, reference.init_args()), reference.draw_inputs(2)
    weight, drawn = model.layer.weight.clone(), inputs[0].clone()
    assert (reference.oracle(model, inputs, seed=0) is None) is ("raise" in raises)
    assert torch.equal(model.layer.weight, weight) and torch.equal(inputs[0], drawn)
    assert model.layer.weight.dtype == torch.float32 and torch.get_default_dtype() == torch.float32


def test_one_tensor_passed_twice_stays_one() -> None:
    x = torch.randn(4)
    first, second, other = oracle.widened_inputs([x, x, x.clone()], torch.device("cpu"))
    assert first is second and first is not other and first.dtype == torch.float64


def test_a_device_that_the_task_names_is_the_oracles() -> None:
    with oracle.promotion(torch.float32, torch.device("meta")):
        made = torch.zeros(3, dtype=torch.float32, device="cpu")
    assert (made.device.type, made.dtype) == ("meta", torch.float64)


def test_operations_are_those_of_the_products() -> None:
    a, b = torch.randn(8, 16), torch.randn(16, 4)
    assert oracle.operations(lambda: a @ b + 1) == 2 * 8 * 16 * 4
