"""Kernels on the simulator: results, and the errors that a GPU would hide."""

import ctypes
import math

import pytest

from warpsmith.sim import order

FEATURES = r"""
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

__constant__ float factor[2];

template <typename T, int ROWS>
__global__ void __launch_bounds__(256) row_softmax(const T* __restrict__ x, T* __restrict__ y, int n) {
    extern __shared__ float partial[];
    const float4* x4 = reinterpret_cast<const float4*>(x + blockIdx.x * n);
    float top = -INFINITY;
    for (int i = threadIdx.x; i < n / 4; i += blockDim.x) {
        float4 v = __ldg(x4 + i);
        top = fmaxf(fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)), top);
    }
    for (int o = 16; o > 0; o >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, o));
    if (threadIdx.x % warpSize == 0) partial[threadIdx.x / 32] = top;
    __syncthreads();
    for (int w = 0; w < blockDim.x / 32; ++w) top = max(top, partial[w]);
    __syncthreads();
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += __expf(x[blockIdx.x * n + i] - top);
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_down_sync(0xffffffff, sum, o);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int w = 0; w < blockDim.x / 32; ++w) sum += partial[w];
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        y[blockIdx.x * n + i] = __fdividef(__expf(x[blockIdx.x * n + i] - top), sum);
}
extern "C" void softmax_launcher(float* y, const float* x, int rows, int n, cudaStream_t stream) {
    row_softmax<float, (2 > 1 ? 1 : 2)><<<dim3(rows), 256, 8 * sizeof(float), stream>>>(x, y, n);
}

__global__ void transpose(const float* in, float* out, int n) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) if (x < n && y + j < n) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x; y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) if (x < n && y + j < n) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}
extern "C" void transpose_launcher(const float* in, float* out, int n, cudaStream_t stream) {
    dim3 grid((n + 31) / 32, (n + 31) / 32);
    transpose<<<grid, dim3(32, 8), 0, stream>>>(in, out, n);
}

__global__ void votes(int* out) {
    int t = threadIdx.x;
    unsigned ballot = __ballot_sync(0xffffffff, t % 2);
    int count = __syncthreads_count(t < 10), all = __syncthreads_and(t < 64), any = __syncthreads_or(t == 3);
    unsigned sum = __reduce_add_sync(0xffffffff, (unsigned)t % 32);
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int tile_sum = cg::reduce(tile, t, cg::plus<int>());
    int up = __shfl_up_sync(0xffffffff, t, 1);
    if (t == 9) {
        out[0] = ballot; out[1] = count; out[2] = all; out[3] = any; out[4] = sum; out[5] = tile_sum; out[6] = up;
        out[7] = tile.meta_group_rank();
    }
    atomicAdd(&out[8], 1);
    atomicMax(&out[9], t);
}
__global__ void floats(float* out, double* d, __half* h) {
    atomicAdd(out, 0.5f);
    atomicAdd(d, 0.25);
    atomicAdd(h, __float2half(1.0f));
    if (threadIdx.x == 0) {
        out[1] = factor[1] * rsqrtf(4.0f);
        out[2] = __half2float(hexp(__float2half(0.0f))) + __bfloat162float(__hfma(__float2bfloat16(2.f),
                 __float2bfloat16(3.f), __float2bfloat16(4.f)));
        out[3] = min(3, 2.5f) + max(1u, 2u) + erff(0.0f);
    }
}
extern "C" int votes_launcher(int* out, float* f) {
    float h[2] = {1, 6};
    cudaMemcpyToSymbol(factor, h, sizeof(h));
    votes<<<1, 64>>>(out);
    double* d; __half* half;
    cudaMalloc(&d, sizeof(double)); cudaMalloc(&half, 2);
    cudaMemset(d, 0, sizeof(double)); cudaMemset(half, 0, 2);
    auto kernel = &floats;
    kernel<<<1, 64>>>(f, d, half);
    f[4] = (float)*d; f[5] = __half2float(*half);
    cudaFree(d); cudaFree(half);
    cudaDeviceProp properties;
    cudaGetDeviceProperties(&properties, 0);
    return properties.multiProcessorCount == 132 && properties.warpSize == 32 ? cudaGetLastError() : 1;
}
"""

BUGS = r"""
#include <cuda_runtime.h>
__global__ void diverge(float* y) {
    if (threadIdx.x % 32 < 16) __syncthreads();
    else y[0] = __shfl_sync(0xffffffff, 1.f, 0);
}
__global__ void wrong_mask(float* y) { y[threadIdx.x] = __shfl_down_sync(0x55555555u, 1.f, 1); }
__global__ void race(const float* x, float* y) {
    __shared__ float s[256];
    s[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = s[255 - threadIdx.x];
}
__global__ void plain(float* y) { extern __shared__ float s[]; y[threadIdx.x] = s[threadIdx.x]; }
extern "C" void diverge_launcher(float* y) { diverge<<<1, 64>>>(y); }
extern "C" void mask_launcher(float* y) { wrong_mask<<<1, 32>>>(y); }
extern "C" void race_launcher(const float* x, float* y) { race<<<1, 256>>>(x, y); }
extern "C" void launch_launcher(float* y, int threads, int shared) { plain<<<1, threads, shared>>>(y); }
extern "C" void opted_in_launcher(float* y) {
    cudaFuncSetAttribute(plain, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 * 1024);
    plain<<<1, 4, 64 * 1024>>>(y);
}
extern "C" float malloc_launcher(size_t bytes) {
    float* p = nullptr;
    return cudaMalloc(&p, bytes) == cudaSuccess ? p[1] : 0.0f;
}
"""


def floats(values: list[float]) -> "ctypes.Array[ctypes.c_float]":
    return (ctypes.c_float * len(values))(*values)


def test_features_give_the_right_values(build) -> None:
    built = build(FEATURES)
    rows, n = 3, 512
    x = [math.sin(i) * 4 for i in range(rows * n)]
    y = floats([0.0] * len(x))
    built.library.softmax_launcher(y, floats(x), rows, n, None)
    for row in range(rows):
        part = x[row * n : (row + 1) * n]
        total = sum(map(math.exp, part))
        assert list(y[row * n : (row + 1) * n]) == pytest.approx(
            [math.exp(v) / total for v in part], rel=1e-5
        )

    size = 45
    source, out = floats([float(i) for i in range(size * size)]), floats([-1.0] * size * size)
    built.library.transpose_launcher(source, out, size, None)
    assert list(out) == [float(j * size + i) for i in range(size) for j in range(size)]

    ints, reals = (ctypes.c_int * 10)(), floats([0.0] * 6)
    assert built.library.votes_launcher(ints, reals) == 0
    odd = ctypes.c_int(0xAAAAAAAA).value
    assert list(ints) == [odd, 10, 1, 1, sum(range(32)), sum(range(8, 16)), 8, 1, 64, 63]
    assert list(reals) == [32.0, 3.0, 11.0, 4.5, 16.0, 64.0]
    assert built.take_error() == (0, "")


def test_device_code_of_two_files_does_not_clash(build) -> None:
    unit = """
    #include <cuda_runtime.h>
    __device__ float act(float x) {{ return x + {n}; }}
    __constant__ float c[1];
    template <typename T> __global__ void k(T* x) {{ x[threadIdx.x] = act(x[threadIdx.x]); }}
    extern "C" void add{n}_launcher(float* x) {{ k<<<1, 2>>>(x); }}
    """
    built = build(unit.format(n=1), unit.format(n=20))
    x = floats([0.0, 1.0])
    built.library.add1_launcher(x)
    built.library.add20_launcher(x)
    assert list(x) == [21.0, 22.0]


def test_a_deadlock_is_reported_and_the_next_launch_works(build) -> None:
    built = build(BUGS)
    y = floats([0.0] * 64)
    built.library.diverge_launcher(y)
    code, message = built.take_error()
    assert code == 719
    assert "kernel diverge" in message and "block (0,0,0)" in message
    assert "32 threads wait in __syncthreads at unit0.cu:4, " in message
    assert "32 threads wait in a warp intrinsic at unit0.cu:5, " in message
    assert "0 of 64 have returned" in message
    assert built.take_error() == (0, "")
    built.library.launch_launcher(y, 4, 16)
    assert all(math.isnan(value) for value in y[:4])  # shared memory starts as NaN
    assert built.take_error() == (0, "")


def test_wrong_mask_launch_limits_and_memory_are_reported(build) -> None:
    built = build(BUGS)
    y = floats([0.0] * 64)
    built.library.mask_launcher(y)
    message = built.take_error()[1]
    assert "unit0.cu:7: block (0,0,0) thread 1: " in message
    assert "mask 0x55555555 does not name its lane 1" in message
    built.library.launch_launcher(y, 2048, 0)
    code, message = built.take_error()
    assert code == 9 and "block (2048,1,1)" in message
    built.library.launch_launcher(y, 4, 64 * 1024)
    code, message = built.take_error()
    assert code == 1 and "65536 bytes of dynamic shared memory" in message
    built.library.opted_in_launcher(y)
    assert built.take_error() == (0, "")
    built.library.malloc_launcher.restype = ctypes.c_float
    assert math.isnan(built.library.malloc_launcher(ctypes.c_size_t(64)))
    assert built.library.malloc_launcher(ctypes.c_size_t(1 << 50)) == 0.0
    assert built.take_error()[0] == 2


WAITS = r"""
#include <cuda_runtime.h>
#include <cassert>
__global__ void spin(int* y) {
    if (threadIdx.x == 0) {
        while (atomicAdd(&y[0], 0) == 0) {}
        y[1] = 5;
    } else if (threadIdx.x == 40) atomicExch(&y[0], 1);
}
__global__ void stuck(int* y) { while (atomicCAS(&y[0], 1, 0) != 1) {} }
__global__ void all_blocks(int* y) {
    atomicAdd(&y[0], 1);
    while (atomicAdd(&y[0], 0) < gridDim.x) {}
}
__global__ void checked(int* y) {
    assert(y[threadIdx.x] == 0);
}
__global__ void early(int* y) {
    if (threadIdx.x < 10) return;
    __syncthreads();
    atomicAdd(&y[0], 1);
}
__global__ void rotate(const int* x, int* y, int* seen) {
    int lane = threadIdx.x;
    if (lane % 3 == 0) {
        seen[lane] = __activemask();
        y[lane] = __shfl_sync(__activemask(), x[lane], 9);
    }
}
extern "C" void spin_launcher(int* y) { spin<<<1, 64>>>(y); }
extern "C" void stuck_launcher(int* y) { stuck<<<1, 32>>>(y); }
extern "C" void all_blocks_launcher(int* y, int blocks) { all_blocks<<<blocks, 1>>>(y); }
extern "C" void checked_launcher(int* y) { checked<<<1, 4>>>(y); }
extern "C" void early_launcher(int* y) { early<<<1, 64>>>(y); }
extern "C" void rotate_launcher(const int* x, int* y, int* seen) { rotate<<<1, 32>>>(x, y, seen); }
extern "C" void poison_launcher(int* y) {
    int* memory;
    cudaMalloc(&memory, 64);
    y[0] = memory[3];
    cudaFree(memory);
}
"""


def test_threads_that_wait_in_loops(build, monkeypatch: pytest.MonkeyPatch) -> None:
    built = build(WAITS)
    ints = (ctypes.c_int * 64)()
    built.library.spin_launcher(ints)
    assert list(ints[:2]) == [1, 5]
    built.library.early_launcher(ints)
    assert ints[0] == 55
    source, target, seen = (ctypes.c_int * 32)(*range(32)), (ctypes.c_int * 32)(), (ctypes.c_uint * 32)()
    built.library.rotate_launcher(source, target, seen)
    every_third = sum(1 << lane for lane in range(0, 32, 3))
    assert list(seen) == [every_third if lane % 3 == 0 else 0 for lane in range(32)]
    assert list(target) == [9 if lane % 3 == 0 else 0 for lane in range(32)]
    assert built.take_error() == (0, "")
    built.library.checked_launcher(ints)
    assert built.take_error() == (710, "kernel checked: unit0.cu:16: assertion `y[threadIdx.x] == 0` failed")
    monkeypatch.setenv("WARPSMITH_SIM_SPIN_SECONDS", "0")
    built.library.stuck_launcher((ctypes.c_int * 1)())
    code, message = built.take_error()
    assert code == 719
    assert "kernel stuck: block (0,0,0) spins on memory that no running thread changes" in message
    built.library.all_blocks_launcher((ctypes.c_int * 1)(), 1)
    assert built.take_error() == (0, "")
    built.library.all_blocks_launcher((ctypes.c_int * 1)(), 300)
    code, message = built.take_error()
    assert code == 801 and "blocks that wait for blocks not yet started cannot run" in message
    fresh = []
    for value in (order.FORWARD, order.REVERSE):
        with order.using(value):
            built.library.poison_launcher(ints)
            fresh.append(ints[0])
    assert fresh == [-1, 0x7FFF7FFF]
