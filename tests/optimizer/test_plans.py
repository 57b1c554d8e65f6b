"""What is rewritten, fused and split, seen on plans and emitted text."""

from pathlib import Path

import pytest
from tests.optimizer.samples import MODELS, task
from tests.optimizer.test_numerics import plan_of

from warpsmith.errors import TaskRefusedError, TaskUnreadableError
from warpsmith.optimizer.build import make_submission
from warpsmith.optimizer.capture import capture, load_task
from warpsmith.optimizer.plan import traffic_bytes


def planned(tmp_path: Path, *model: str) -> object:
    return plan_of(tmp_path, task(*model))[1]


def test_the_chain_is_one_kernel_with_one_read_and_one_write(tmp_path: Path) -> None:
    plan = planned(tmp_path, *MODELS["silu_bias_layernorm_gelu"])
    (launch,) = plan.launches
    assert plan.notes == ["fused sigmoid + mul + add + layer_norm + gelu into 1 kernel (5 operators)"]
    assert launch.cached
    assert traffic_bytes(plan.program, launch.kernel) == 4 * (2 * 6 * 132 + 3 * 132)


@pytest.mark.parametrize(
    "forward",
    [
        "return torch.diag(a[0]) @ a[1]",
        "return torch.matmul(a[0].diag(), a[1])",
        "return torch.mm(torch.diag_embed(a[0]), a[1])",
        "return a[2] @ torch.diag(a[0])",
        "return F.linear(a[2], torch.diag(a[0]))",
    ],
)
def test_a_diagonal_product_is_a_scaling(forward: str, tmp_path: Path) -> None:
    plan = planned(tmp_path, forward, "[torch.randn(8), torch.randn(8, 12), torch.randn(4, 8)]")
    assert not plan.calls
    assert len(plan.launches) == 1
    assert plan.notes[0] in ("diag(A) @ B → row scaling", "A @ diag(b) → column scaling")


def test_the_full_size_diagonal_case_moves_the_byte_floor(tmp_path: Path) -> None:
    plan = planned(tmp_path, "return torch.diag(a[0]) @ a[1]", "[torch.rand(4096), torch.rand(4096, 4096)]")
    (launch,) = plan.launches
    assert traffic_bytes(plan.program, launch.kernel) == 4 * (2 * 4096 * 4096 + 4096)
    assert (launch.mode, launch.vec) == ("pointwise", 4)
    text = make_submission(plan).files["model_new.py"]
    assert text.split("def forward")[1].count("torch.") == 1


@pytest.mark.parametrize(
    "forward",
    [
        "return torch.sum((a[0] @ self.l.weight.T) / 2, dim=1, keepdim=True) * 1.5",
        "return self.l(a[0]).sum(-1)",
        "return (-self.l(a[0]) * 3).mean(dim=1)",
        "return self.l(a[0]).sum(0)",
        "return (a[0] @ self.l.weight.T).sum(0, keepdim=True)",
        "return torch.addmm(self.l.bias, a[0], self.l.weight.t()).sum(1)",
        "return self.l(a[0]).mean()",
    ],
)
def test_a_summed_product_is_matrix_vector(forward: str, tmp_path: Path) -> None:
    plan = planned(tmp_path, forward, "[torch.rand(6, 40)]", "self.l = nn.Linear(40, 24)")
    assert not plan.calls
    assert "matrix-vector" in plan.notes[0]


@pytest.mark.parametrize(
    "forward",
    [
        "return F.relu(self.l(a[0])).sum(-1)",
        "y = self.l(a[0]); return y.sum(-1), y",
        "return self.l(a[0]).amax(-1)",
    ],
)
def test_a_product_that_is_needed_stays(forward: str, tmp_path: Path) -> None:
    plan = planned(tmp_path, forward, "[torch.rand(6, 40)]", "self.l = nn.Linear(40, 24)")
    assert [s.label[1] for s in plan.products] == ["linear"]


def test_large_inputs_are_never_allocated(tmp_path: Path) -> None:
    plan = planned(tmp_path, "return torch.softmax(a[0], 1)", "[torch.rand(4096, 393216)]")
    (launch,) = plan.launches
    partial, combine, write = launch.stages
    assert (partial.kernel.rows, partial.kernel.length, partial.cached) == (4096 * 48, 8192, True)
    assert (combine.kernel.rows, combine.kernel.length) == (4096, 48)
    assert (launch.mode, write.vec, write.index) == ("relay", 4, "unsigned")
    assert traffic_bytes(plan.program, launch.kernel) < 1.01 * 8 * 4096 * 393216


def test_more_elements_than_32_bits_hold_get_wide_indices(tmp_path: Path) -> None:
    plan = planned(tmp_path, "return a[0] + 1", "[torch.rand(65536, 65536)]")
    assert plan.launches[0].index == "long long"


def test_few_long_rows_are_split_over_many_blocks(tmp_path: Path) -> None:
    plan = planned(
        tmp_path,
        "return self.n(a[0])",
        "[torch.rand(16, 64, 256, 256)]",
        "self.n = nn.LayerNorm((64, 256, 256))",
    )
    (launch,) = plan.launches
    assert [stage.grid for stage in launch.stages] == [8192, 16, 8192]


def test_channel_norm_reads_once(tmp_path: Path) -> None:
    forward = "x = a[0]; return x / torch.sqrt(torch.mean(x**2, dim=1, keepdim=True) + 1e-5)"
    plan = planned(tmp_path, forward, "[torch.rand(112, 64, 512, 512)]")
    (launch,) = plan.launches
    assert (launch.mode, launch.cached) == ("column", True)


def test_a_model_without_anything_of_ours_gives_no_submission(tmp_path: Path) -> None:
    plan = planned(tmp_path, "return torch.linalg.inv(a[0])", "[torch.rand(4, 4)]")
    assert make_submission(plan) is None
    assert plan.notes == ["kept as torch calls: aten.linalg_inv"]


def test_state_names_with_numbers_are_kept(tmp_path: Path) -> None:
    init = "self.s = nn.Sequential(nn.Linear(4, 4), nn.ReLU()); self.register_buffer('k', torch.ones(4))"
    plan = planned(tmp_path, "return self.s(a[0]) + self.k", "[torch.rand(2, 4)]", init)
    text = make_submission(plan).files["model_new.py"]
    assert '_register(self, "s.0.weight", torch.empty((4, 4), dtype=torch.float32), True)' in text
    assert '_register(self, "k", torch.empty((4,), dtype=torch.float32), False)' in text
    assert 'self.s._modules["0"].weight' in text


def test_emission_is_deterministic(tmp_path: Path) -> None:
    first, second = (make_submission(planned(tmp_path, *MODELS["shared_middle"])) for _ in range(2))
    assert first == second


def test_faults_of_the_task_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "task.py"
    path.write_text("def nothing(:\n")
    with pytest.raises(TaskUnreadableError, match="syntax error"):
        load_task(path)
    path.write_text("x = 1\n")
    with pytest.raises(TaskUnreadableError, match="no Model"):
        load_task(path)
    path.write_text("raise KeyError('absent')\n")
    with pytest.raises(TaskRefusedError, match="KeyError"):
        load_task(path)
    path.write_text(task("raise ValueError('bad luck')", "[torch.rand(2)]"))
    with pytest.raises(TaskRefusedError, match="bad luck"):
        capture(load_task(path))
