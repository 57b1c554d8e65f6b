"""Level 1, problem 12: rows scaled by the vector's squares. Wrong."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/types.h>

__global__ void scale_rows(float* out, const float* d, const float* b, long rows, long columns) {
    long n = rows * columns, stride = (long)gridDim.x * blockDim.x;
    for (long i = (long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
        out[i] = d[i / columns] * d[i / columns] * b[i];
}

torch::Tensor diagonal(torch::Tensor d, torch::Tensor b) {
    auto out = torch::empty_like(b);
    auto to = out.data_ptr<float>(), by = d.data_ptr<float>(), from = b.data_ptr<float>();
    scale_rows<<<4096, 256>>>(to, by, from, b.size(0), b.size(1));
    return out;
}
"""

extension = load_inline(
    name="diagonal_squared",
    cpp_sources="torch::Tensor diagonal(torch::Tensor d, torch::Tensor b);",
    cuda_sources=CUDA,
    functions=["diagonal"],
)


class ModelNew(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return extension.diagonal(A.contiguous(), B.contiguous())
