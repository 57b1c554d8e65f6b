"""Level 2, problem 14: a product summed over columns by way of the summed weight. Right."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/types.h>

constexpr int THREADS = 256, ROWS = 256;

__global__ void column_sums(float* sums, const float* weight, int rows, int columns) {
    int column = blockIdx.x * THREADS + threadIdx.x, first = blockIdx.y * ROWS;
    if (column >= columns) return;
    float sum = 0.0f;
    for (int row = first; row < min(first + ROWS, rows); ++row) sum += weight[(size_t)row * columns + column];
    atomicAdd(&sums[column], sum);
}

__global__ void row_dots(float* out, const float* x, const float* sums, int columns, float factor) {
    __shared__ float shared[THREADS];
    float own = 0.0f;
    const float* row = x + (size_t)blockIdx.x * columns;
    for (int i = threadIdx.x; i < columns; i += THREADS) own += row[i] * sums[i];
    shared[threadIdx.x] = own;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = shared[0] * factor;
}

torch::Tensor gemm_sum(torch::Tensor x, torch::Tensor weight, double factor) {
    int rows = weight.size(0), columns = weight.size(1);
    auto sums = torch::zeros({columns}, x.options());
    auto out = torch::empty({x.size(0), 1}, x.options());
    column_sums<<<dim3((columns + THREADS - 1) / THREADS, (rows + ROWS - 1) / ROWS), THREADS>>>(
        sums.data_ptr<float>(), weight.data_ptr<float>(), rows, columns);
    row_dots<<<x.size(0), THREADS>>>(
        out.data_ptr<float>(), x.data_ptr<float>(), sums.data_ptr<float>(), columns, factor);
    return out;
}
"""

extension = load_inline(
    name="gemm_sum",
    cpp_sources="torch::Tensor gemm_sum(torch::Tensor x, torch::Tensor weight, double factor);",
    cuda_sources=CUDA,
    functions=["gemm_sum"],
)


class ModelNew(nn.Module):
    def __init__(self, input_size: int, hidden_size: int, scaling_factor: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(hidden_size, input_size))
        self.scaling_factor = scaling_factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.gemm_sum(x.contiguous(), self.weight, self.scaling_factor / 2)
