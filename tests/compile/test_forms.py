"""The forms of submission from end to end: `warpsmith judge` on the simulator, with PyTorch's own headers."""

import json
import os
import subprocess
import sys

import pytest

_TASK = """
import torch

class Model(torch.nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.bias = bias

    def forward(self, x):
        return torch.nn.functional.gelu(x, approximate="tanh") + self.bias

def get_inputs():
    return [torch.randn(6, 50)]

def get_init_inputs():
    return [0.25]
"""
_SINGLE_FILE = '''
import torch
from torch.utils.cpp_extension import load_inline

source = """
__global__ void gelu_kernel(const float* __restrict__ x, float* y, float bias, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    y[i] = 0.5f * v * (1.f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v))) + bias;
}

torch::Tensor gelu_bias(torch::Tensor x, double bias) {
    TORCH_CHECK(x.is_cuda(), "x must be on the GPU");
    auto y = torch::empty_like(x);
    const int n = x.numel();
    gelu_kernel<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), bias, n);
    return y;
}
"""
gelu = load_inline(
    name="gelu_bias",
    cpp_sources="torch::Tensor gelu_bias(torch::Tensor x, double bias);",
    cuda_sources=source,
    functions=["gelu_bias"],
    extra_cuda_cflags=["-O3", "--use_fast_math"],
    verbose=False,
)

class ModelNew(torch.nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.bias = bias

    def forward(self, x):
        return gelu.gelu_bias(x, self.bias)
'''


@pytest.mark.slow
def test_a_single_file_with_load_inline_passes_the_judge(shared_cache, sim, tmp_path):
    pytest.importorskip("torch")
    task, submission = tmp_path / "task.py", tmp_path / "kernel.py"
    task.write_text(_TASK)
    submission.write_text(_SINGLE_FILE)
    ran = subprocess.run(
        [sys.executable, "-m", "warpsmith", "judge", task, submission, "--device", "sim", "--json"],
        env={**os.environ, "WARPSMITH_CACHE": str(shared_cache.parent)},
        capture_output=True,
        text=True,
    )
    verdict = json.loads(ran.stdout)
    assert (verdict["status"], ran.returncode) == ("passed", 0), verdict["detail"]
    assert verdict["error"]["rel"] < 1e-5
