"""FLOPs of the reference's products by precision, and what is made of them."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.nn as nn
from tests.judge.inprocess import HEAD
from torch.utils.flop_counter import FlopCounterMode

from warpsmith.gpu.devices import GpuInfo
from warpsmith.judge.job import JobFolder, RefereeJob
from warpsmith.judge.reference.model import Reference
from warpsmith.judge.session import Session
from warpsmith.judge.timing.clock import Samples, time_stats
from warpsmith.judge.timing.roofline import ProductCount, Traffic, cudnn_rnn_flops, roofline
from warpsmith.judge.timing.scoring import byte_floor
from warpsmith.rollout.scripted import scripted_verdict
from warpsmith.types import Bound, Device, Precision, Submission, Task, TimeStats, Verdict, sha256_hex
from warpsmith.types.protocols import JudgeSettings

H200 = GpuInfo(index=0, uuid="GPU-1", name="NVIDIA H200", memory_bytes=1, driver="580", arch="sm_90")


def took(ms: float) -> TimeStats:
    return time_stats(Samples(1, (ms,) * 5), 0.0)


@pytest.fixture
def no_tf32() -> Iterator[None]:
    kept = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = kept


def counted(run: Callable[[], object]) -> dict[Precision, int] | None:
    with ProductCount() as count, torch.no_grad():
        run()
    return count.flops


MODELS = {
    "linear": (nn.Linear(48, 32), (8, 48)),
    "convolution": (nn.Conv2d(6, 12, 3, stride=2, groups=3), (2, 6, 17, 19)),
    "transposed": (nn.ConvTranspose1d(6, 4, 5), (2, 6, 30)),
    "perceptron": (nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 4)), (5, 16)),
    "attention": (nn.MultiheadAttention(16, 4, batch_first=True), (2, 7, 16)),
    "pointwise": (nn.Softmax(-1), (4, 33)),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("inference", [False, True])
def test_counts_what_pytorchs_own_counter_counts(name: str, inference: bool, no_tf32: None) -> None:
    model, shape = MODELS[name]
    x = torch.randn(shape)
    arguments = (x, x, x) if name == "attention" else (x,)
    with torch.inference_mode(inference), torch.no_grad():
        with FlopCounterMode(display=False) as expected:
            model(*arguments)
        with ProductCount() as count:
            model(*arguments)
    total = expected.get_total_flops()
    assert (total > 0) == (name != "pointwise")
    assert count.flops == ({Precision.FP32: total} if total else {})


def test_each_product_counts_in_its_own_precision(no_tf32: None) -> None:
    a, b = torch.randn(8, 16), torch.randn(16, 4)

    def run() -> None:
        a @ b
        a.double() @ b.double()
        a.bfloat16() @ b.bfloat16()
        torch.conv1d(a[None], torch.randn(2, 8, 3))

    each = 2 * 8 * 16 * 4
    by_conv = 2 * 2 * 14 * 8 * 3
    exact = {Precision.FP32: each + by_conv, Precision.FP64: each, Precision.BF16: each}
    assert counted(run) == exact
    torch.backends.cudnn.allow_tf32 = True
    assert counted(run) == {**exact, Precision.FP32: each, Precision.TF32: by_conv}
    torch.backends.cuda.matmul.allow_tf32 = True
    assert counted(run) == {Precision.TF32: each + by_conv, Precision.FP64: each, Precision.BF16: each}


def test_a_dtype_without_a_peak_makes_the_count_unknown() -> None:
    assert (
        counted(lambda: torch.ones(4, 4, dtype=torch.complex64) @ torch.ones(4, 4, dtype=torch.complex64))
        is None
    )
    assert counted(lambda: torch.ones(4) + 1) == {}


def test_a_recurrent_layer_meets_each_matrix_once_a_step() -> None:
    lstm = nn.LSTM(5, 7, num_layers=2, bidirectional=True)
    x = torch.empty(11, 3, 5)
    matrices = 2 * (4 * 7 * (5 + 7) + 4 * 7 * (14 + 7))
    assert cudnn_rnn_flops(x, list(lstm.parameters()), 4, None, out_val=None) == 2 * 33 * matrices


def test_a_large_product_is_bound_by_compute() -> None:
    n = 4096
    traffic = Traffic(read_bytes=8 * n * n, written_bytes=4 * n * n, flops={Precision.FP32: 2 * n**3})
    candidate = took(2.72)
    found = roofline(traffic, byte_floor(traffic, candidate, H200), candidate, H200)
    assert found.bound is Bound.COMPUTE and found.flops == 2 * n**3
    assert found.intensity == pytest.approx(2 * n**3 / (12 * n * n))
    assert found.compute_ms == pytest.approx(2 * n**3 / 67e12 * 1e3)
    assert found.memory_ms == pytest.approx(12 * n * n / 4800e9 * 1e3)
    assert found.attained_tflops == pytest.approx(2 * n**3 / 2.72e-3 / 1e12)
    assert found.attained_gb_s == pytest.approx(12 * n * n / 2.72e-3 / 1e9)
    assert found.share == pytest.approx(found.compute_ms / 2.72)


def test_precisions_take_their_turns_and_a_share_above_one_is_told() -> None:
    traffic = Traffic(
        read_bytes=0, written_bytes=4, flops={Precision.TF32: 494_700_000_000, Precision.FP32: 67_000_000_000}
    )
    candidate = took(0.5)
    found = roofline(traffic, byte_floor(traffic, candidate, H200), candidate, H200)
    assert [(w.precision, w.peak_tflops) for w in found.work] == [
        (Precision.FP32, 67.0),
        (Precision.TF32, 494.7),
    ]
    assert found.compute_ms == pytest.approx(2.0) and found.share == pytest.approx(4.0)


def test_without_products_memory_is_the_bound() -> None:
    traffic = Traffic(read_bytes=4_800_000_000, written_bytes=0, flops={})
    candidate = took(2.0)
    found = roofline(traffic, byte_floor(traffic, candidate, H200), candidate, H200)
    assert found.bound is Bound.MEMORY and found.work == () and found.intensity == 0
    assert found.attained_gb_s == pytest.approx(2400) and found.share == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("gpu", "flops"), [("NVIDIA H200", None), ("Something new", {}), ("Tesla T4", {Precision.BF16: 1})]
)
def test_what_is_not_known_gives_none(gpu: str, flops: dict | None) -> None:
    other = GpuInfo(index=0, uuid="GPU-1", name=gpu, memory_bytes=1, driver="580", arch="sm_90")
    traffic = Traffic(read_bytes=1, written_bytes=1, flops=flops)
    assert roofline(traffic, byte_floor(traffic, took(1.0), other), took(1.0), other) is None


TASK = (
    HEAD
    + """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(24, 8)
    def forward(self, x):
        {body}
        return F.relu(self.linear(x))
def get_inputs():
    return [torch.randn(6, 24)]
def get_init_inputs():
    return []
"""
)
UNDER_NO_MODE = """
        from torch.utils._python_dispatch import _get_current_dispatch_mode
        if _get_current_dispatch_mode() is not None:
            raise RuntimeError("not under a mode")
"""


@pytest.mark.parametrize("body", ["", UNDER_NO_MODE])
def test_a_session_tells_bytes_and_products_of_one_forward(tmp_path: Path, body: str, no_tf32: None) -> None:
    found = session_of(tmp_path, TASK.replace("        {body}\n", body)).traffic()
    assert found.read_bytes == 4 * (6 * 24 + 24 * 8 + 8)
    assert found.written_bytes == 4 * 6 * 8
    assert found.flops == (None if body else {Precision.FP32: 2 * 6 * 24 * 8})


def session_of(root: Path, code: str) -> Session:
    """A session that has a reference and a model, and no more."""
    folder = JobFolder(root)
    settings = JudgeSettings(device=Device.SIM)
    job = RefereeJob(task_hash="0", task_name="own", submission_hash="0", settings=settings)
    session = Session(folder, job, lambda phase, what: None)
    session.reference = Reference.load(code, folder.task, "cpu")
    session.model = session.reference.new_model(1, session.reference.init_args())
    return session


def test_a_verdict_without_one_is_what_it_was_before_there_were_any() -> None:
    verdict = scripted_verdict(
        Task(name="t", code="pass"), Submission(files={"model_new.py": ""}), JudgeSettings(device=Device.CUDA)
    )
    before = json.loads(verdict.model_dump_json())
    del before["roofline"]
    assert Verdict.model_validate(before) == verdict
    assert verdict.content_hash == sha256_hex(json.dumps(before, sort_keys=True, separators=(",", ":")))
    traffic = Traffic(read_bytes=400, written_bytes=100, flops={Precision.FP16: 10**6})
    told = roofline(traffic, byte_floor(traffic, took(1.0), H200), took(1.0), H200)
    with_it = verdict.model_copy(update={"roofline": told})
    assert Verdict.model_validate_json(with_it.model_dump_json()) == with_it
    assert with_it.content_hash != verdict.content_hash
