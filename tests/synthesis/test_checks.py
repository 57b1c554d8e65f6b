"""Each gate refuses what it is for, and honest tasks pass."""

import pytest
import torch
from tests.synthesis.small import estimate, written

from warpsmith.synthesis.checks import BY_WEAKNESS, check
from warpsmith.synthesis.records import Origin, Reject
from warpsmith.types import Device, Weakness

WIDE = "torch.randn(batch, 64)"
TWO = "torch.randn(batch, 64), torch.randn(batch, 64)"


@pytest.mark.parametrize(
    ("fields", "reject"),
    [
        ({"forward": "return torch.exp(x)"}, None),
        ({"forward": "return self.layer(x)", "init": "self.layer = nn.Linear(64, 64)"}, None),
        ({"forward": "return x / 0"}, Reject.NOT_FINITE),
        ({"forward": "return torch.exp(x[:, 100])"}, Reject.RAISES),
        ({"forward": "return torch.exp(x) + torch.randn(64)"}, Reject.RANDOM),
        ({"forward": "return torch.exp(x * 0)"}, Reject.CONSTANT_OUTPUT),
        ({"forward": "return torch.exp(x) * 1e-4"}, Reject.ZEROS_PASS),
        ({"forward": "return x + 1e-5 * torch.exp(-x * x)"}, Reject.COPY_PASSES),
        ({"forward": "return torch.exp(x)", "inputs": TWO}, Reject.IDLE_INPUT),
        ({"forward": "return torch.softmax(self.layer(x).sum(1, keepdim=True) + x, 1)",
          "init": "self.layer = nn.Linear(64, 64)"}, Reject.IDLE_PARAMETER),
        ({"forward": "return torch.empty(batch, 64) + x"}, Reject.UNWRITTEN_MEMORY),
        ({"forward": "return 'done'"}, Reject.NOT_JUDGEABLE),
        ({"forward": "return torch.exp(x).mean()", "inputs": "torch.rand(batch * 64, 64)"}, Reject.INDISTINGUISHABLE),
        ({"forward": "return torch.special.hermite_polynomial_he(x, more[0])",
          "inputs": "torch.rand(batch, 64), torch.rand(batch, 64) + 0.5"}, Reject.JUMPS),
        ({"forward": "return self.layer(x.relu())",
          "init": "self.layer = nn.Sequential(nn.MaxPool1d(4), nn.LeakyReLU())"}, None),
        ({"forward": "return torch.acos(x)", "inputs": "torch.rand(batch, 64) * 2 - 1"}, None),
        ({"forward": "return torch.exp(x", "ops": ("torch.exp",)}, Reject.UNREADABLE),
        ({"forward": "return torch.exp(x)", "ops": ("torch.exp", "torch.nn.GELU"), "origin": Origin.LLM},
         Reject.MISLABELLED),
        ({"forward": "return torch.exp(x)", "cost": estimate(eager_ms=0.3)}, Reject.OUTSIDE_TIME),
        ({"forward": "return torch.exp(x)", "cost": estimate(eager_ms=300.0)}, Reject.OUTSIDE_TIME),
    ],
)  # fmt: skip
def test_gates(tmp_path, fields, reject):
    row = check(written(**fields), Device.SIM, tmp_path)
    assert (reject in row.rejects) if reject else row.rejects == (), row
    assert (row.checked_hash is not None) == (reject is None)


def test_the_first_reason_is_that_of_the_cheapest_check(tmp_path):
    both = written("return torch.exp(x) * 0 + 1e-4", inputs=TWO)
    row = check(both, Device.SIM, tmp_path)
    assert list(row.rejects) == sorted(row.rejects, key=list(Reject).index)


def test_memory_at_full_size_is_bounded_without_allocating_it(tmp_path):
    huge = written("return torch.exp(x)", inputs="torch.randn(batch * 65536, 1024)")
    row = check(huge.model_copy(update={"cost": None}), Device.SIM, tmp_path)
    assert row.rejects[0] in (Reject.OUTSIDE_TIME, Reject.OUTSIDE_MEMORY)


def test_a_task_without_an_estimate_gets_one(tmp_path):
    task = written("return torch.exp(x)", inputs="torch.randn(batch * 1024, 1024)").model_copy(
        update={"cost": None}
    )
    row = check(task, Device.SIM, tmp_path)
    assert row.rejects == ()
    # 4 GiB in and 4 GiB out at 4.8 TB/s, of which 80 % are reached
    assert row.cost.eager_ms == pytest.approx(2 * 4 * 2**30 / (4800e6 * 0.8), rel=0.01)


def test_every_weakness_has_its_reason():
    assert set(BY_WEAKNESS) == set(Weakness)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_full_size_and_times_on_a_gpu(tmp_path):
    good = written("return torch.exp(x).cumsum(1)", inputs="torch.randn(batch * 512, 1024)")
    row = check(good, Device.CUDA, tmp_path)
    assert row.rejects == () and 1.0 <= row.times.eager_ms <= 100.0
    assert row.times.compile_ms > 0 and row.times.peak_bytes >= 2 * 4 * 2**29
    short = check(written("return torch.exp(x)"), Device.CUDA, tmp_path)
    assert short.rejects == (Reject.OUTSIDE_TIME,)
