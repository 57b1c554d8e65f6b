"""A small task, its honest C-ABI submission, and the means to break either."""

from warpsmith.types import Submission, Task

TASK = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale
        self.shift = nn.Parameter(torch.randn(24))

    def forward(self, x):
        return x * self.scale + self.shift

def get_inputs():
    return [torch.randn(6, 24)]

def get_init_inputs():
    return [1.5]
"""

MODEL_NEW = """
import torch
import torch.nn as nn
import cuda_extension

class ModelNew(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale
        self.shift = nn.Parameter(torch.empty(24))

    def forward(self, x):
        out = torch.empty_like(x)
        cuda_extension.affine(out, x, self.shift, self.scale, x.numel(), x.shape[1])
        return out
"""

FAULT_KERNEL = """
#include <cuda_runtime.h>
#include <cassert>

__global__ void affine_kernel(float* out, const float* x, const float* shift, float scale, int n, int columns,
                              int fault) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (fault == 1) *(volatile int*)8 = 1;
    assert(fault != 2);
    while (fault == 3 && *(const volatile float*)x > -1e30f) {}
    if (i < n) out[i] = x[i] * scale + shift[i % columns];
}

extern "C" void affine_launcher(float* out, const float* x, const float* shift, float scale, int n, int columns,
                                int fault, cudaStream_t stream) {
    affine_kernel<<<(n + 127) / 128, 128, 0, stream>>>(out, x, shift, scale, n, columns, fault);
}
"""
"""One build for all faults: which one it is comes as an argument, 0 for none."""

KERNEL = """
#include <cuda_runtime.h>

__global__ void affine_kernel(float* out, const float* x, const float* shift, float scale, int n, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] * scale + shift[i % columns];
}

extern "C" void affine_launcher(float* out, const float* x, const float* shift, float scale, int n, int columns,
                                cudaStream_t stream) {
    affine_kernel<<<(n + 127) / 128, 128, 0, stream>>>(out, x, shift, scale, n, columns);
}
"""


def submission(model_new: str = MODEL_NEW, kernel: str = KERNEL) -> Submission:
    """The honest submission for TASK, or one with a part replaced."""
    return Submission(files={"model_new.py": model_new, "kernels/affine.cu": kernel})


def task(code: str = TASK) -> Task:
    """TASK, or another code."""
    return Task(name="affine", code=code)
