// Scans, reductions and what follows from them.
#include <cuda_runtime.h>

#include <cfloat>
#include <cstdint>

namespace {

__device__ __forceinline__ float warp_scan(float value) {
    for (int offset = 1; offset < 32; offset *= 2) {
        float below = __shfl_up_sync(0xffffffffu, value, offset);
        if (threadIdx.x % 32 >= offset) value += below;
    }
    return value;
}

__global__ void scan_warp(const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = warp_scan(x[i]);
}

__global__ void scan_block(const float* x, float* y) {
    __shared__ float sums[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, i = blockIdx.x * blockDim.x + threadIdx.x;
    float inclusive = warp_scan(x[i]);
    if (lane == 31) sums[warp] = inclusive;
    __syncthreads();
    if (warp == 0) {
        float own = lane < blockDim.x / 32 ? sums[lane] : 0.0f;
        sums[lane] = warp_scan(own) - own;
    }
    __syncthreads();
    y[i] = inclusive - x[i] + sums[warp];
}

// Work-efficient, in dynamic shared memory, over up to 512 integers a block; totals for the next pass.
__global__ void scan_parts(const int* x, int* y, int* totals, int n) {
    extern __shared__ int tree[];
    int t = threadIdx.x, size = 2 * blockDim.x, base = blockIdx.x * size;
    for (int i = t; i < size; i += blockDim.x) tree[i] = base + i < n ? x[base + i] : 0;
    for (int step = 1; step < size; step *= 2) {
        __syncthreads();
        int i = (t + 1) * 2 * step - 1;
        if (i < size) tree[i] += tree[i - step];
    }
    if (t == 0) {
        totals[blockIdx.x] = tree[size - 1];
        tree[size - 1] = 0;
    }
    for (int step = blockDim.x; step > 0; step /= 2) {
        __syncthreads();
        int i = (t + 1) * 2 * step - 1;
        if (i < size) {
            int left = tree[i - step];
            tree[i - step] = tree[i];
            tree[i] += left;
        }
    }
    __syncthreads();
    for (int i = t; i < size; i += blockDim.x)
        if (base + i < n) y[base + i] = tree[i];
}
__global__ void add_totals(int* y, const int* totals, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int before = 0;
    for (int part = 0; part < i / 512; ++part) before += totals[part];
    y[i] += before;
}

__global__ void tree_sum(const float* x, float* sums, int n) {
    __shared__ float cache[256];
    int t = threadIdx.x;
    float own = 0;
    for (int i = blockIdx.x * 256 + t; i < n; i += 256 * gridDim.x) own += x[i];
    cache[t] = own;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (t < half) cache[t] += cache[t + half];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = cache[0];
}

template <typename T, class Combine>
__device__ T reduce_block(T value, T none, Combine combine) {
    __shared__ T shared[32];
    for (int offset = 16; offset > 0; offset /= 2) value = combine(value, __shfl_down_sync(0xffffffffu, value, offset));
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x < 32) {
        value = threadIdx.x < (blockDim.x + 31) / 32 ? shared[threadIdx.x] : none;
        for (int offset = 16; offset > 0; offset /= 2)
            value = combine(value, __shfl_xor_sync(0xffffffffu, value, offset));
    }
    return value;
}
struct Larger {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Added {
    __device__ double operator()(double a, double b) const { return a + b; }
};
__global__ void row_max(const float* x, float* y, int width) {
    float top = -FLT_MAX;
    for (int i = threadIdx.x; i < width; i += blockDim.x) top = fmaxf(top, x[blockIdx.x * width + i]);
    top = reduce_block(top, -FLT_MAX, Larger());
    if (threadIdx.x == 0) y[blockIdx.x] = top;
}
__global__ void row_sum_double(const double* x, double* y, int width) {
    double sum = 0;
    for (int i = threadIdx.x; i < width; i += blockDim.x) sum += x[blockIdx.x * width + i];
    sum = reduce_block(sum, 0.0, Added());
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

// Ties go to the lowest index.
__global__ void argmax(const float* x, int64_t* index, int width) {
    float best = -INFINITY;
    int at = 0;
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        if (x[blockIdx.x * width + i] > best) {
            best = x[blockIdx.x * width + i];
            at = i;
        }
    for (int offset = 16; offset > 0; offset /= 2) {
        float other = __shfl_down_sync(0xffffffffu, best, offset);
        int place = __shfl_down_sync(0xffffffffu, at, offset);
        if (other > best || (other == best && place < at)) {
            best = other;
            at = place;
        }
    }
    if (threadIdx.x == 0) index[blockIdx.x] = at;
}

__global__ void segment_sum(const float* x, const int* starts, float* y, int segments) {
    int segment = blockIdx.x * blockDim.y + threadIdx.y;
    if (segment >= segments) return;
    float sum = 0;
    for (int i = starts[segment] + threadIdx.x; i < starts[segment + 1]; i += 32) sum += x[i];
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    if (threadIdx.x == 0) y[segment] = sum;
}

// Keeps what is positive, in order, within one block.
__global__ void compact(const float* x, float* y, int* kept, int n) {
    __shared__ int offsets[33];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    bool keep = threadIdx.x < n && x[threadIdx.x] > 0.0f;
    unsigned vote = __ballot_sync(0xffffffffu, keep);
    if (lane == 0) offsets[warp + 1] = __popc(vote);
    __syncthreads();
    if (threadIdx.x == 0) {
        offsets[0] = 0;
        for (int i = 0; i < warps; ++i) offsets[i + 1] += offsets[i];
        *kept = offsets[warps];
    }
    __syncthreads();
    if (keep) y[offsets[warp] + __popc(vote & ((1u << lane) - 1))] = x[threadIdx.x];
}

// Mean and variance together (Welford), merged by shuffles.
__global__ void moments(const float* x, float* mean_out, float* variance_out, int width) {
    float mean = 0, square = 0, count = 0;
    for (int i = threadIdx.x; i < width; i += 32) {
        float value = x[blockIdx.x * width + i], delta = value - mean;
        count += 1;
        mean += delta / count;
        square += delta * (value - mean);
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        float other = __shfl_down_sync(0xffffffffu, mean, offset), more = __shfl_down_sync(0xffffffffu, square, offset);
        float n = __shfl_down_sync(0xffffffffu, count, offset), total = count + n, delta = other - mean;
        if (n > 0) {
            mean += delta * n / total;
            square += more + delta * delta * count * n / total;
            count = total;
        }
    }
    if (threadIdx.x == 0) {
        mean_out[blockIdx.x] = mean;
        variance_out[blockIdx.x] = square / count;
    }
}

// Each block waits for the one before it and hands its sum on (blocks take their turn by a ticket).
__global__ void scan_chained(const int* x, int* y, volatile int* sums, int* flags, int* ticket, int n) {
    __shared__ int part, before;
    __shared__ int values[128];
    if (threadIdx.x == 0) part = atomicAdd(ticket, 1);
    __syncthreads();
    int i = part * 128 + threadIdx.x;
    values[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    for (int offset = 1; offset < 128; offset *= 2) {
        int below = threadIdx.x >= offset ? values[threadIdx.x - offset] : 0;
        __syncthreads();
        values[threadIdx.x] += below;
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        before = 0;
        if (part > 0) {
            while (atomicAdd(&flags[part - 1], 0) == 0) {}
            __threadfence();
            before = sums[part - 1];
        }
        sums[part] = before + values[127];
        __threadfence();
        atomicExch(&flags[part], 1);
    }
    __syncthreads();
    if (i < n) y[i] = before + values[threadIdx.x];
}

}  // namespace

extern "C" void scan_warp_launcher(const float* x, float* y, int n, cudaStream_t stream) {
    scan_warp<<<n / 64, 64, 0, stream>>>(x, y);
}
extern "C" void scan_block_launcher(const float* x, float* y, int n, cudaStream_t stream) {
    scan_block<<<n / 256, 256, 0, stream>>>(x, y);
}
extern "C" void scan_grid_launcher(const int* x, int* y, int* totals, int n, cudaStream_t stream) {
    int parts = (n + 511) / 512;
    scan_parts<<<parts, 256, 512 * sizeof(int), stream>>>(x, y, totals, n);
    add_totals<<<(n + 255) / 256, 256, 0, stream>>>(y, totals, n);
}
extern "C" void sum_two_stages_launcher(const float* x, float* sums, float* total, int n, cudaStream_t stream) {
    tree_sum<<<7, 256, 0, stream>>>(x, sums, n);
    tree_sum<<<1, 256, 0, stream>>>(sums, total, 7);
}
extern "C" void row_max_launcher(const float* x, float* y, int rows, int width, cudaStream_t stream) {
    row_max<<<rows, 96, 0, stream>>>(x, y, width);
}
extern "C" void row_sum_double_launcher(const double* x, double* y, int rows, int width, cudaStream_t stream) {
    row_sum_double<<<rows, 128, 0, stream>>>(x, y, width);
}
extern "C" void argmax_launcher(const float* x, int64_t* index, int rows, int width, cudaStream_t stream) {
    argmax<<<rows, 32, 0, stream>>>(x, index, width);
}
extern "C" void segment_sum_launcher(const float* x, const int* starts, float* y, int segments, cudaStream_t stream) {
    segment_sum<<<(segments + 3) / 4, dim3(32, 4), 0, stream>>>(x, starts, y, segments);
}
extern "C" void compact_launcher(const float* x, float* y, int* kept, int n, cudaStream_t stream) {
    compact<<<1, 1024, 0, stream>>>(x, y, kept, n);
}
extern "C" void moments_launcher(const float* x, float* mean, float* variance, int rows, int width, cudaStream_t stream) {
    moments<<<rows, 32, 0, stream>>>(x, mean, variance, width);
}
extern "C" void scan_chained_launcher(const int* x, int* y, int* sums, int* flags, int* ticket, int n,
                                      cudaStream_t stream) {
    scan_chained<<<(n + 127) / 128, 128, 0, stream>>>(x, y, sums, flags, ticket, n);
}
