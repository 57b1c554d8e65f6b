"""Sanitized builds: what they catch, and the one line that their report becomes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from warpsmith.compile.local import LocalCompiler
from warpsmith.errors import UsageError
from warpsmith.sim import sanitizer
from warpsmith.sim.rewrite import rewrite_source
from warpsmith.sim.toolchain import EXPORTS_UNIT, SimToolchain
from warpsmith.types import CompileStatus, Device, Submission, Target

FAULTS = """\
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cstdlib>
__global__ void beyond(float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n)
        y[i] = 1.0f;
}
__global__ void shared_beyond(float* y, int at) {
    __shared__ float s[8];
    s[at] = 1.0f;
    __syncthreads();
    y[threadIdx.x] = s[0];
}
__global__ void dynamic_beyond(float* y) {
    extern __shared__ float d[];
    d[threadIdx.x] = y[0];
}
__global__ void misaligned(float* y) {
    float4 v = *reinterpret_cast<float4*>(y + 1);
    y[0] = v.x;
}
__global__ void local(float* y, int k) {
    float a[4] = {1, 2, 3, 4};
    y[0] = a[k];
}
__global__ void fine(__half* h) {
    __half2 v = __hadd2(*reinterpret_cast<__half2*>(h), __float2half2_rn(1.0f));
    h[threadIdx.x] = v.x;
}
int main(int, char** argv) {
    float* y;
    int which = atoi(argv[1]);
    cudaMalloc(&y, 1000 * sizeof(float));
    if (which == 0) beyond<<<4, 256>>>(y, 1000);
    if (which == 1) shared_beyond<<<1, 1>>>(y, 8);
    if (which == 2) shared_beyond<<<1, 1>>>(y, -1);
    if (which == 3) dynamic_beyond<<<1, 9, 32>>>(y);
    if (which == 4) misaligned<<<1, 1>>>(y);
    if (which == 5) local<<<1, 1>>>(y, 4);
    if (which == 6) beyond<<<1, 32>>>(nullptr, 1000);
    if (which == 7) fine<<<4, 64>>>(reinterpret_cast<__half*>(y));
    cudaFree(y);
    if (which == 8) beyond<<<1, 32>>>(y, 1000);
}
"""
FAULT_LINES = {
    0: "kernels/k.cu:7 in beyond: write of 4 bytes outside global memory, 0 bytes after an allocation of 4000 bytes",
    1: "kernels/k.cu:11 in shared_beyond: write of 4 bytes outside shared memory",
    2: "kernels/k.cu:11 in shared_beyond: write of 4 bytes outside shared memory",
    3: "kernels/k.cu:17 in dynamic_beyond: write of 4 bytes outside shared memory",
    4: "kernels/k.cu:20: misaligned address: `float4` must lie at a multiple of 16 bytes",
    5: "kernels/k.cu:25 in local: read of 4 bytes outside a local array",
    6: "kernels/k.cu:7 in beyond: write to an address that is no memory",
    7: None,
    8: "kernels/k.cu:7 in beyond: write of 4 bytes to global memory that was freed, 0 bytes into an allocation of "
    "4000 bytes",
}


@pytest.fixture(scope="module")
def faults(toolchain: SimToolchain, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faults")
    (folder / "unit.cpp").write_text(rewrite_source(FAULTS, "kernels/k.cu") + EXPORTS_UNIT)
    flags = [*toolchain.compile_flags(sanitize=True), *toolchain.link_flags(sanitize=True)]
    argv = [toolchain.cxx(), str(folder / "unit.cpp"), "-o", str(folder / "unit"), *flags]
    subprocess.run(argv, check=True, timeout=120)
    return folder / "unit"


@pytest.mark.parametrize("which", FAULT_LINES)
def test_a_fault_becomes_one_line(faults: Path, which: int) -> None:
    environment = {**os.environ, **sanitizer.environment(), "WARPSMITH_SIM_THREADS": "1"}
    del environment["LD_PRELOAD"]  # the program itself is linked with the sanitizers
    done = subprocess.run([faults, str(which)], capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == (0 if FAULT_LINES[which] is None else sanitizer.EXIT_STATUS), done.stderr
    assert sanitizer.read_report(done.stderr, ["model_new.py", "k.cu", "kernels/k.cu"]) == FAULT_LINES[which]


KERNEL = """\
#include <cuda_runtime.h>
__global__ void fill(float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) y[i] = 1.0f;
}
extern "C" void fill_launcher(float* y, int n, cudaStream_t stream) { fill<<<n / 64 + 1, 64, 0, stream>>>(y, n); }
"""
PROGRAM = """
import sys, torch
sys.path.insert(0, sys.argv[1])
import cuda_extension
y = torch.empty(1000)
cuda_extension.fill(y, 999)
print(float(y.sum()), flush=True)
cuda_extension.fill(y, 1000)
"""


def test_a_sanitized_build_is_loaded_by_python(tmp_path: Path) -> None:
    submission = Submission(files={"model_new.py": "", "kernels/fill.cu": KERNEL})
    compiler = LocalCompiler(cache_dir=tmp_path / "cache", jobs=1)
    built = compiler.build(submission, Target(device=Device.SIM, sanitize=True))
    assert built.status is CompileStatus.OK, built.log
    report = tmp_path / "report"
    assert sanitizer.read_reports(report, submission.files) is None
    environment = {**os.environ, **sanitizer.environment(report=report), "WARPSMITH_SIM_THREADS": "1"}
    argv = [sys.executable, "-I", "-c", PROGRAM, str(built.build_dir)]
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=120)
    assert (done.returncode, done.stdout) == (sanitizer.EXIT_STATUS, "1000.0\n"), done.stderr
    assert sanitizer.read_reports(report, submission.files) == (
        "kernels/fill.cu:4 in fill: write of 4 bytes outside global memory, 0 bytes after an allocation of 4000 bytes"
    )


def test_only_the_simulator_builds_sanitized() -> None:
    with pytest.raises(UsageError, match="only the simulator"):
        LocalCompiler().build(
            Submission(files={"model_new.py": "", "kernels/fill.cu": KERNEL}),
            Target(device=Device.CUDA, arch="sm_90", sanitize=True),
        )


def test_text_without_a_report_says_nothing() -> None:
    assert sanitizer.read_report("Traceback (most recent call last):\n  error") is None
