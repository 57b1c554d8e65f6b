// Cooperative groups, warp votes and matches, bit tricks, asynchronous copies, constant memory.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace cg = cooperative_groups;

namespace {

template <unsigned SIZE>
__global__ void tile_sums(const int* x, int* y) {
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<SIZE>(block);
    int i = block.group_index().x * block.size() + block.thread_rank();
    int sum = x[i];
    for (unsigned offset = tile.size() / 2; offset > 0; offset /= 2) sum += tile.shfl_down(sum, offset);
    if (tile.thread_rank() == 0) y[block.group_index().x * tile.meta_group_size() + tile.meta_group_rank()] = sum;
}

__global__ void tile_reduce(const float* x, float* sums, float* tops) {
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = cg::reduce(tile, x[i], cg::plus<float>()), top = cg::reduce(tile, x[i], cg::greater<float>());
    if (tile.thread_rank() == 0) {
        sums[i / 32] = sum;
        tops[i / 32] = top;
    }
}

__global__ void tile_scans(const int* x, int* inclusive, int* exclusive) {
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    inclusive[i] = cg::inclusive_scan(tile, x[i]);
    exclusive[i] = cg::exclusive_scan(tile, x[i], cg::plus<int>());
}

// The lanes that ran into the branch together share one atomic.
__global__ void count_positive(const int* x, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 0) {
        auto active = cg::coalesced_threads();
        if (active.thread_rank() == 0) atomicAdd(count, static_cast<int>(active.size()));
    }
}

__global__ void count_by_label(const int* labels, int* counts) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    int label = labels[blockIdx.x * blockDim.x + threadIdx.x];
    auto same = cg::labeled_partition(warp, label);
    int size = cg::reduce(same, 1, cg::plus<int>());
    if (same.thread_rank() == 0) atomicAdd(&counts[label], size);
}

__global__ void matches(const int* x, unsigned* same, unsigned* votes) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    same[i] = __match_any_sync(0xffffffffu, x[i]);
    int all_same;
    unsigned all = __match_all_sync(0xffffffffu, x[i] / 64, &all_same);
    unsigned odd = __ballot_sync(0xffffffffu, x[i] & 1);
    votes[i] = (all_same ? all : 0u) ^ odd ^ (__any_sync(0xffffffffu, x[i] == 3) << 7) ^ __all_sync(0xffffffffu, x[i] >= 0);
}

__global__ void warp_reductions(const unsigned* x, unsigned* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, warp = i / 32;
    unsigned v = x[i];
    unsigned sum = __reduce_add_sync(0xffffffffu, v), low = __reduce_min_sync(0xffffffffu, v);
    unsigned high = __reduce_max_sync(0xffffffffu, v), both = __reduce_and_sync(0xffffffffu, v);
    unsigned any = __reduce_or_sync(0xffffffffu, v), odd = __reduce_xor_sync(0xffffffffu, v);
    if (i % 32 == 0) {
        y[warp * 6] = sum, y[warp * 6 + 1] = low, y[warp * 6 + 2] = high;
        y[warp * 6 + 3] = both, y[warp * 6 + 4] = any, y[warp * 6 + 5] = odd;
    }
}

__global__ void bit_tricks(const unsigned* x, unsigned* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned a = x[i], b = x[n - 1 - i], s = a % 32;
    unsigned long long wide = static_cast<unsigned long long>(a) << 32 | b;
    unsigned* out = y + i * 12;
    out[0] = __popc(a) + __popcll(wide) * 64;
    out[1] = __clz(a) + __clzll(wide) * 64;
    out[2] = __ffs(a) + __ffsll(wide) * 64;
    out[3] = __brev(a);
    out[4] = __funnelshift_l(a, b, s);
    out[5] = __funnelshift_r(a, b, s);
    out[6] = __vadd4(a, b) ^ __vsub2(a, b);
    out[7] = __vabsdiffu4(a, b) ^ __vmaxs2(a, b);
    out[8] = __vsadu4(a, b) + __vcmpgtu4(a, b);
    out[9] = __dp4a(a, b, 7u);
    out[10] = __umulhi(a, b) ^ static_cast<unsigned>(__mulhi(static_cast<int>(a), static_cast<int>(b)));
    out[11] = __byte_perm(a, b, 0x6420) + __usad(a, b, 1u);
}

__global__ void staged_copy(const float4* x, float4* y, int n) {
    __shared__ float4 stage[2][64];
    int t = threadIdx.x, turn = 0;
    for (int start = blockIdx.x * 64; start < n; start += gridDim.x * 64, turn ^= 1) {
        if (start + t < n) __pipeline_memcpy_async(&stage[turn][t], &x[start + t], sizeof(float4));
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
        int from = 63 - t;
        if (start + from < n && start + t < n) {
            float4 v = stage[turn][from];
            y[start + t] = make_float4(v.w, v.z, v.y, v.x);
        }
        __syncthreads();
    }
}

__constant__ float coefficients[5];
__global__ void polynomial(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = coefficients[4];
    for (int j = 3; j >= 0; --j) sum = sum * x[i] + coefficients[j];
    y[i] = sum;
}

// A value from every quarter of the warp, and a rotation through all lanes.
__global__ void shuffles(const int* x, int* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = i % 32;
    int quarter = __shfl_sync(0xffffffffu, x[i], 3, 8), around = __shfl_sync(0xffffffffu, x[i], lane + 5);
    int up = __shfl_up_sync(0xffffffffu, x[i], 2, 16), across = __shfl_xor_sync(0xffffffffu, x[i], 9);
    int half = 0;
    if (lane < 16) half = __shfl_down_sync(0x0000ffffu, x[i], 4, 16);
    y[i] = quarter + 3 * around + 5 * up + 7 * across + 11 * half;
}

__device__ int collatz(int64_t value) {
    int steps = 0;
    while (value != 1) {
        value = value % 2 ? 3 * value + 1 : value / 2;
        ++steps;
    }
    return steps;
}
__global__ void collatz_steps(int* y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = collatz(i + 1);
}

// A flag that one warp waits for and another sets.
__global__ void hand_over(const int* x, int* y) {
    __shared__ int box;
    __shared__ int ready;
    if (threadIdx.x == 0) ready = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        while (atomicAdd(&ready, 0) == 0) __nanosleep(20);
        __threadfence_block();
        y[blockIdx.x] = atomicAdd(&box, 0) + 1;
    } else if (threadIdx.x == 32) {
        atomicExch(&box, x[blockIdx.x]);
        __threadfence_block();
        atomicExch(&ready, 1);
    }
}

}  // namespace

extern "C" void tile_sums_launcher(const int* x, int* y32, int* y16, int* y8, int n, cudaStream_t stream) {
    tile_sums<32><<<n / 64, 64, 0, stream>>>(x, y32);
    tile_sums<16><<<n / 64, 64, 0, stream>>>(x, y16);
    tile_sums<8><<<n / 64, 64, 0, stream>>>(x, y8);
}
extern "C" void tile_reduce_launcher(const float* x, float* sums, float* tops, int n, cudaStream_t stream) {
    tile_reduce<<<n / 96, 96, 0, stream>>>(x, sums, tops);
}
extern "C" void tile_scans_launcher(const int* x, int* inclusive, int* exclusive, int n, cudaStream_t stream) {
    tile_scans<<<n / 64, 64, 0, stream>>>(x, inclusive, exclusive);
}
extern "C" void count_positive_launcher(const int* x, int* count, int n, cudaStream_t stream) {
    count_positive<<<(n + 127) / 128, 128, 0, stream>>>(x, count, n);
}
extern "C" void count_by_label_launcher(const int* labels, int* counts, int n, cudaStream_t stream) {
    count_by_label<<<n / 64, 64, 0, stream>>>(labels, counts);
}
extern "C" void matches_launcher(const int* x, unsigned* same, unsigned* votes, int n, cudaStream_t stream) {
    matches<<<n / 64, 64, 0, stream>>>(x, same, votes);
}
extern "C" void warp_reductions_launcher(const unsigned* x, unsigned* y, int n, cudaStream_t stream) {
    warp_reductions<<<n / 64, 64, 0, stream>>>(x, y);
}
extern "C" void bit_tricks_launcher(const unsigned* x, unsigned* y, int n, cudaStream_t stream) {
    bit_tricks<<<(n + 63) / 64, 64, 0, stream>>>(x, y, n);
}
extern "C" void staged_copy_launcher(const float4* x, float4* y, int n, cudaStream_t stream) {
    staged_copy<<<2, 64, 0, stream>>>(x, y, n / 4);
}
extern "C" void polynomial_launcher(const float* x, float* y, int n, cudaStream_t stream) {
    const float values[5] = {1.0f, -0.5f, 0.25f, 2.0f, -1.0f};
    cudaMemcpyToSymbolAsync(coefficients, values, sizeof(values), 0, cudaMemcpyHostToDevice, stream);
    polynomial<<<(n + 63) / 64, 64, 0, stream>>>(x, y, n);
}
extern "C" void shuffles_launcher(const int* x, int* y, int n, cudaStream_t stream) {
    shuffles<<<n / 64, 64, 0, stream>>>(x, y);
}
extern "C" void collatz_steps_launcher(int* y, int n, cudaStream_t stream) {
    collatz_steps<<<3, 64, 0, stream>>>(y, n);
}
extern "C" void hand_over_launcher(const int* x, int* y, int n, cudaStream_t stream) {
    hand_over<<<n, 64, 0, stream>>>(x, y);
}
