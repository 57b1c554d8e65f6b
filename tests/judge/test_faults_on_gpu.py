"""Faults that only a GPU has, each in a judgement of its own, and the next one right.

Out of bounds, endless, `__trap`, a refused allocation and a host's segmentation fault are in `test_on_gpu.py`.
"""

import os
from collections.abc import Callable, Iterator

import psutil
import pytest

from warpsmith.compile.toolchain import find_nvcc
from warpsmith.gpu.devices import list_gpus
from warpsmith.gpu.local import visible_gpus
from warpsmith.recipes.fleet import LocalFleet
from warpsmith.types import Device, Status, Submission, Task, Verdict
from warpsmith.types.protocols import JudgeSettings, Menu

pytestmark = pytest.mark.gpu

Judge = Callable[..., Verdict]

TASK = Task(
    name="scaled",
    code="""
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2.0 + 1.0
def get_inputs():
    return [torch.randn(1024, 1024)]
def get_init_inputs():
    return []
""",
)
MODEL = """
import torch
import cuda_extension
HELD = []
def quietly():
    # all that is free, but for what this process needs for its own small tensors and its output
    HELD.append(torch.zeros(1, device="cuda"))
    for size in (1 << 26, 1 << 21):
        try:
            while True:
                HELD.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        except torch.OutOfMemoryError:
            pass
    del HELD[1]
class ModelNew(torch.nn.Module):
    def forward(self, x):
        FIRST
        out = torch.empty_like(x)
        cuda_extension.scaled(out, x, x.numel(), FAULT)
        return out
"""
# one build for all of them: which fault it is comes as an argument
KERNEL = """
#include <cuda_runtime.h>
#include <cassert>
__global__ void scaled(float* out, const float* x, int n, int fault) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (fault == 1 && i == 0) *(volatile double*)((char*)out + 4) = 1.0;
    assert(fault != 2);
    if (i < n) out[i] = x[i] * 2.0f + 1.0f;
}
__global__ void late(volatile int* place) {
    const long long begun = clock64();
    while (clock64() - begun < 100000000ll) {}
    *place = 1;
}
extern "C" void scaled_launcher(float* out, const float* x, int n, int fault, cudaStream_t stream) {
    scaled<<<(n + 255) / 256, 256, 0, stream>>>(out, x, n, fault);
    if (fault == 3) {
        // the output is right and complete long before this stream's fault
        static cudaStream_t other = nullptr;
        if (!other) cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
        late<<<1, 1, 0, other>>>((volatile int*)(1ull << 46));
    }
}
"""
MARK = "warpsmith-test-holds-the-gpu"
HOLDS = "import torch; kept = torch.ones(1 << 30, dtype=torch.uint8, device='cuda')\nwhile True: kept.add_(1)"
SPAWN = (
    "import subprocess, sys, os; HELD or HELD.append(subprocess.Popen("
    f"[sys.executable, '-c', {HOLDS!r}, {MARK!r}], start_new_session=True, env=dict(os.environ)))"
)
FILL = (
    "HELD or HELD.extend(torch.empty(1 << 28, dtype=torch.uint8, device='cuda')"
    " for _ in range(torch.cuda.mem_get_info()[1] >> 28))"
)


def made(fault: int, first: str = "pass") -> Submission:
    """The kernel with a fault in it, 0 for none, or a statement before it."""
    model = MODEL.replace("FIRST", first).replace("FAULT", str(fault))
    return Submission(files={"model_new.py": model, "kernels/scaled.cu": KERNEL})


HONEST = made(0)


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """`judge(submission)`: correctness alone unless told, by workers that stay; skips without a GPU or nvcc."""
    torch = pytest.importorskip("torch")
    gpus = visible_gpus(list_gpus(), os.environ.get("CUDA_VISIBLE_DEVICES"))
    if not gpus or torch.version.cuda is None or find_nvcc() is None:
        pytest.skip("needs an NVIDIA GPU and nvcc")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARPSMITH_CACHE", str(tmp_path_factory.mktemp("gpu-faults")))
        with LocalFleet(Device.CUDA, 1) as fleet:
            station = fleet.station()

            def run(submission: Submission, *, measure: bool = False) -> Verdict:
                asked = JudgeSettings(
                    device=Device.CUDA, measure=measure, baselines=Menu.PAPER, call_timeout_s=10.0
                )
                return station.judge.judge(TASK, submission, asked)

            yield run
            assert fleet.pool.quarantined() == {}


FAULTS = {
    "misaligned address": made(1),
    "device assert": made(2),
    "memory filled": made(0, FILL),
    "deferred fault on another stream": made(3),
}


@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_is_a_crash_and_the_next_judgement_is_right(judge: Judge, what: str) -> None:
    verdict = judge(FAULTS[what])
    assert verdict.status is Status.CRASHED, verdict.detail
    after = judge(HONEST)
    assert after.status is Status.PASSED, after.detail


def test_who_fills_the_gpu_so_that_nobody_can_check_it_has_crashed(judge: Judge) -> None:
    # what checking one call takes, the referee has had since it checked the task; timing takes more
    verdict = judge(made(0, "HELD or quietly()"), measure=True)
    assert verdict.status is Status.CRASHED, verdict.detail
    after = judge(HONEST)
    assert after.status is Status.PASSED, after.detail


def test_a_grandchild_that_holds_the_gpu_is_gone_with_its_judgement(judge: Judge) -> None:
    verdict = judge(made(0, SPAWN))
    # it holds what it took while it is judged, and slows nobody but itself
    assert verdict.status in (Status.PASSED, Status.CRASHED), verdict.detail
    assert [p.pid for p in psutil.process_iter(["cmdline"]) if MARK in (p.info["cmdline"] or ())] == []
    after = judge(HONEST)
    assert after.status is Status.PASSED, after.detail
