"""Kernels of several accuracies on float32 tasks, by this judge: their errors, and what each is matched with.

    python benchmarks/accuracy.py [--size 4096] [--only NAME,…] [--menu all|matched] [--out FILE]

A product of two square matrices, with elements of mean zero and positive ones, through cuBLAS: in float32, in TF32,
with operands rounded to float16 and to bfloat16, and as three TF32 products of split operands; a 3×3 convolution
through PyTorch in float32 and in TF32. Every baseline of the menu is measured, competing or not (with `--menu
matched` only those that compete), in a cache of its own. What fails the judge's gates has no speed-up: its row says
which gate.
"""

import argparse
import os
import tempfile
from pathlib import Path

from common import RESULTS, save

from warpsmith.types import Device, Submission, Task, Verdict, baseline_name
from warpsmith.types.protocols import JudgeSettings, Menu

GEMM_TASK = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.{draw}({size}, {size}), torch.{draw}({size}, {size})]


def get_init_inputs():
    return []
"""
CONV_TASK = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(64, 128, 3, padding=1)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(128, 64, 128, 128)]


def get_init_inputs():
    return []
"""
CONV_MODEL = """import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(64, 128, 3, padding=1)

    def forward(self, x):
        with torch.backends.cudnn.flags(enabled=True, allow_tf32={tf32}):
            return F.conv2d({x}, self.conv.weight, self.conv.bias, padding=1).contiguous()
"""
GEMM_MODEL = """import torch
import torch.nn as nn
import cuda_extension


class ModelNew(nn.Module):
    def forward(self, a, b):
        n = a.shape[0]
        out = torch.empty_like(a)
        {call}
        return out
"""
GEMM_KERNEL = """#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

static cublasHandle_t handle(cudaStream_t stream) {
    static cublasHandle_t made = [] { cublasHandle_t h; cublasCreate(&h); return h; }();
    cublasSetStream(made, stream);
    return made;
}

// out = a b + beta out, all row-major n x n: cuBLAS, which is column-major, is given b a.
static void product(float* out, const void* a, const void* b, int n, float beta, cudaDataType operands,
                    cublasComputeType_t compute, cudaStream_t stream) {
    const float one = 1.f;
    cublasGemmEx(handle(stream), CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, b, operands, n, a, operands, n, &beta, out,
                 CUDA_R_32F, n, compute, CUBLAS_GEMM_DEFAULT);
}

template <typename T>
__global__ void narrow_kernel(T* out, const float* x, size_t count) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        out[i] = (T)x[i];
}

template <typename T>
static void narrow(T* out, const float* x, int n, cudaStream_t stream) {
    narrow_kernel<<<2048, 256, 0, stream>>>(out, x, (size_t)n * n);
}

extern "C" void gemm_strict_launcher(float* out, const float* a, const float* b, int n, cudaStream_t stream) {
    product(out, a, b, n, 0.f, CUDA_R_32F, CUBLAS_COMPUTE_32F, stream);
}

extern "C" void gemm_tf32_launcher(float* out, const float* a, const float* b, int n, cudaStream_t stream) {
    product(out, a, b, n, 0.f, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, stream);
}

extern "C" void gemm_fp16_launcher(float* out, __half* low_a, __half* low_b, const float* a, const float* b, int n,
                                   cudaStream_t stream) {
    narrow(low_a, a, n, stream);
    narrow(low_b, b, n, stream);
    product(out, low_a, low_b, n, 0.f, CUDA_R_16F, CUBLAS_COMPUTE_32F, stream);
}

extern "C" void gemm_bf16_launcher(float* out, __nv_bfloat16* low_a, __nv_bfloat16* low_b, const float* a,
                                   const float* b, int n, cudaStream_t stream) {
    narrow(low_a, a, n, stream);
    narrow(low_b, b, n, stream);
    product(out, low_a, low_b, n, 0.f, CUDA_R_16BF, CUBLAS_COMPUTE_32F, stream);
}

// x = high + low, high with TF32's ten bits of mantissa.
__global__ void split_kernel(float* high, float* low, const float* x, size_t count) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x) {
        const float h = __uint_as_float((__float_as_uint(x[i]) + 0x1000u) & 0xffffe000u);
        high[i] = h;
        low[i] = x[i] - h;
    }
}

extern "C" void gemm_split_launcher(float* out, float* high_a, float* low_a, float* high_b, float* low_b,
                                    const float* a, const float* b, int n, cudaStream_t stream) {
    const size_t count = (size_t)n * n;
    split_kernel<<<2048, 256, 0, stream>>>(high_a, low_a, a, count);
    split_kernel<<<2048, 256, 0, stream>>>(high_b, low_b, b, count);
    product(out, low_a, high_b, n, 0.f, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, stream);
    product(out, high_a, low_b, n, 1.f, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, stream);
    product(out, high_a, high_b, n, 1.f, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, stream);
}
"""
LOW = ", ".join(["torch.empty(n, n, device=a.device, dtype=torch.{0})"] * 2)
GEMM_CALLS = {
    "strict": "cuda_extension.gemm_strict(out, a, b, n)",
    "tf32": "cuda_extension.gemm_tf32(out, a, b, n)",
    "split tf32": f"cuda_extension.gemm_split(out, {LOW.format('float32')}, {LOW.format('float32')}, a, b, n)",
    "fp16 operands": f"cuda_extension.gemm_fp16(out, {LOW.format('float16')}, a, b, n)",
    "bf16 operands": f"cuda_extension.gemm_bf16(out, {LOW.format('bfloat16')}, a, b, n)",
}
CONV_MODELS = {
    "strict": CONV_MODEL.format(tf32=False, x="x"),
    "tf32": CONV_MODEL.format(tf32=True, x="x"),
    "tf32 nhwc": CONV_MODEL.format(tf32=True, x="x.contiguous(memory_format=torch.channels_last)"),
}


def cases(size: int) -> dict[str, tuple[Task, Submission]]:
    """Task and submission by name."""
    found = {}
    for draw, what in (("randn", "gemm, mean zero"), ("rand", "gemm, positive")):
        task = Task(name=what, code=GEMM_TASK.format(draw=draw, size=size))
        for name, call in GEMM_CALLS.items():
            files = {"model_new.py": GEMM_MODEL.format(call=call), "kernels/gemm.cu": GEMM_KERNEL}
            found[f"{what}: {name}"] = (task, Submission(files=files))
    for name, code in CONV_MODELS.items():
        found[f"conv: {name}"] = (Task(name="conv", code=CONV_TASK), Submission(files={"model_new.py": code}))
    return found


def row(verdict: Verdict) -> dict:
    """What a verdict says of accuracy and speed."""
    answer: dict = {"status": verdict.status.value, "detail": verdict.detail, "notes": list(verdict.notes)}
    answer["error"] = verdict.error.model_dump(mode="json") if verdict.error else None
    if verdict.accuracy:
        answer["accuracy"] = verdict.accuracy.model_dump(mode="json")
        answer["competing"] = list(verdict.accuracy.competing())
    if verdict.timings and verdict.speedup:
        named = {baseline_name(mode, kind): s.median_ms for mode, kind, s in verdict.timings.baselines()}
        answer["median_ms"] = {"candidate": verdict.timings.candidate.median_ms, **named}
        answer["without_a_time"] = {
            baseline_name(m.mode, m.kind): m.problem for m in verdict.timings.menu if m.problem
        }
        answer["speedup"] = verdict.speedup.model_dump(mode="json")
    answer["judge_seconds"] = verdict.seconds
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--only", default="", help="parts of the cases' names, separated by commas")
    parser.add_argument("--menu", type=Menu, choices=list(Menu), default=Menu.ALL)
    parser.add_argument("--out", type=Path, default=RESULTS / "accuracy.json")
    args = parser.parse_args()
    os.environ["WARPSMITH_CACHE"] = tempfile.mkdtemp(prefix="warpsmith-accuracy-")
    from warpsmith.cli import wiring
    from warpsmith.report import verdict_lines
    from warpsmith.reward import reward_of

    judge = wiring.bench(Device.CUDA, lambda phase, what: None, ahead=True).judge
    settings = JudgeSettings(device=Device.CUDA, baselines=args.menu)
    rows: dict[str, dict] = {}
    for name, (task, submission) in cases(args.size).items():
        if args.only and not any(part in name for part in args.only.split(",")):
            continue
        verdict = judge.judge(task, submission, settings)
        rows[name] = row(verdict)
        print(f"== {name}", *verdict_lines(verdict, reward_of(verdict)), sep="\n", flush=True)
        save(args.out, size=args.size, menu=args.menu.value, cases=rows)
    judge.close()


if __name__ == "__main__":
    main()
