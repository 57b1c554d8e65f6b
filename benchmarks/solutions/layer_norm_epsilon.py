"""Level 1, problem 40: LayerNorm, many blocks a row. Wrong: epsilon is 1e-3, not 1e-5."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/types.h>

constexpr int THREADS = 256, PARTS = 256;

// Sums of both values over the block, in every thread.
__device__ double2 block_sum(double2 v) {
    __shared__ double2 shared[THREADS];
    shared[threadIdx.x] = v;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            shared[threadIdx.x].x += shared[threadIdx.x + half].x;
            shared[threadIdx.x].y += shared[threadIdx.x + half].y;
        }
        __syncthreads();
    }
    return shared[0];
}

__global__ void moments(double2* parts, const float* x, long width) {
    const float* row = x + blockIdx.y * width;
    double2 own = make_double2(0.0, 0.0);
    for (long i = (long)blockIdx.x * THREADS + threadIdx.x; i < width; i += (long)PARTS * THREADS) {
        own.x += row[i];
        own.y += (double)row[i] * row[i];
    }
    double2 sum = block_sum(own);
    if (threadIdx.x == 0) parts[blockIdx.y * PARTS + blockIdx.x] = sum;
}

__global__ void apply(float* out, const float* x, const float* weight, const float* bias,
                      const double2* parts, long width, double eps) {
    double2 sum = block_sum(parts[blockIdx.y * PARTS + threadIdx.x]);
    double mean = sum.x / width, variance = sum.y / width - mean * mean;
    float centre = mean, scale = 1.0 / sqrt(variance + eps);
    size_t first = blockIdx.y * width;
    for (long i = (long)blockIdx.x * THREADS + threadIdx.x; i < width; i += (long)PARTS * THREADS)
        out[first + i] = (x[first + i] - centre) * scale * weight[i] + bias[i];
}

torch::Tensor layer_norm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
    auto out = torch::empty_like(x);
    long rows = x.size(0), width = x.numel() / rows;
    auto parts = torch::empty({rows, PARTS, 2}, x.options().dtype(torch::kFloat64));
    auto sums = reinterpret_cast<double2*>(parts.data_ptr<double>());
    moments<<<dim3(PARTS, rows), THREADS>>>(sums, x.data_ptr<float>(), width);
    auto from = x.data_ptr<float>(), gain = weight.data_ptr<float>(), shift = bias.data_ptr<float>();
    apply<<<dim3(PARTS, rows), THREADS>>>(out.data_ptr<float>(), from, gain, shift, sums, width, eps);
    return out;
}
"""

DECLARATION = """
torch::Tensor layer_norm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps);
"""

extension = load_inline(
    name="layer_norm_epsilon",
    cpp_sources=DECLARATION,
    cuda_sources=CUDA,
    functions=["layer_norm"],
)


class ModelNew(nn.Module):
    def __init__(self, normalized_shape: tuple) -> None:
        super().__init__()
        self.ln = nn.LayerNorm(normalized_shape=normalized_shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.layer_norm(x.contiguous(), self.ln.weight, self.ln.bias, 1e-3)
