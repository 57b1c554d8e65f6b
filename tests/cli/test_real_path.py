"""The commands on the real judge, compiler and policy, on the simulator."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

EXAMPLES = Path(__file__).parents[2] / "examples"
TASK = """
import torch
class Model(torch.nn.Module):
    def forward(self, x, y):
        return 2.0 * x + y
def get_inputs():
    return [torch.randn(33, 17), torch.randn(33, 17)]
def get_init_inputs():
    return []
"""
MODEL_NEW = """
import torch
import cuda_extension
class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        cuda_extension.axpy(x, y, out, x.numel())
        return out
"""
KERNEL = """
__global__ void axpy(const float* x, const float* y, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2.0f * x[i] + y[i];
}
extern "C" void axpy_launcher(const float* x, const float* y, float* out, int n, cudaStream_t stream) {
    axpy<<<(n + 255) / 256, 256, 0, stream>>>(x, y, out, n);
}
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "task.py").write_text(TASK)
    lay(tmp_path / "sub", KERNEL)
    return tmp_path


def lay(folder: Path, kernel: str) -> None:
    (folder / "kernels").mkdir(parents=True)
    (folder / "model_new.py").write_text(MODEL_NEW)
    (folder / "kernels" / "axpy.cu").write_text(kernel)


def warpsmith(folder: Path, cache: Path | str, *args: str, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "warpsmith", *args],
        cwd=folder,
        env={**os.environ, "WARPSMITH_CACHE": str(cache), **extra},
        capture_output=True,
        text=True,
        timeout=240,
        stdin=subprocess.DEVNULL,
    )


def judge(folder: Path, cache: Path | str, **extra: str) -> subprocess.CompletedProcess[str]:
    return warpsmith(folder, cache, "judge", "task.py", "sub", "--device", "sim", "--json", **extra)


def test_judge_passes_a_right_kernel(folder: Path, cache: Path) -> None:
    done = judge(folder, cache)
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert (answer["status"], answer["reward"], answer["device"]) == ("passed", 1, "sim")
    assert answer["speedup"] is None and answer["error"]["rel"] < 1e-6


@pytest.mark.parametrize(
    ("kernel", "status"),
    [
        (KERNEL.replace("2.0f * x[i]", "2.1f * x[i]"), "wrong"),
        (KERNEL.replace("i < n", "i < n / 2"), "wrong"),
        (KERNEL.replace("blockIdx.x *", "blockIdx.q *"), "compile_failed"),
    ],
)
def test_judge_says_what_is_wrong(folder: Path, cache: Path, kernel: str, status: str) -> None:
    (folder / "sub" / "kernels" / "axpy.cu").write_text(kernel)
    done = judge(folder, cache)
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["status"], answer["reward"]) == (1, status, -1)
    assert answer["detail"]


@pytest.mark.parametrize(
    ("cache_path", "extra", "said"),
    [
        ("{tmp}/fresh", {"PATH": "", "CXX": ""}, "install g++"),
        ("/proc/nowhere", {}, "set WARPSMITH_CACHE"),
    ],
)
def test_a_machine_that_cannot_judge_is_infrastructure(
    folder: Path, cache_path: str, extra: dict[str, str], said: str
) -> None:
    done = judge(folder, cache_path.format(tmp=folder), **extra)
    assert done.returncode == 3
    assert json.loads(done.stdout)["status"] == "infrastructure"
    last = done.stderr.splitlines()[-1]
    assert last.startswith("warpsmith: ") and said in last
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_optimize_an_example_and_use_the_result(folder: Path, cache: Path) -> None:
    example = str(EXAMPLES / "gated_norm.py")
    done = warpsmith(folder, cache, "optimize", example, "--device", "sim", "--out", "result", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert (answer["status"], answer["improved"], answer["derived_task"]) == ("passed", None, True)
    report = (folder / "result" / "report.md").read_text()
    assert "## What was rewritten and fused" in report and "derived task" in report
    used = subprocess.run(
        [sys.executable, "use.py"],
        cwd=folder / "result",
        env={**os.environ, "WARPSMITH_CACHE": str(cache), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert used.returncode == 0, used.stderr
    match = re.fullmatch(r"output 0: relative error (\S+), largest difference \S+\n", used.stdout)
    assert match and float(match[1]) < 1e-5, used.stdout
