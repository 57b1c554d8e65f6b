// Atomics: on integers, floats, halves, with compare-and-swap, and what is built from them.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void histogram(const int* x, int* bins, int n, int count) {
    extern __shared__ int local[];
    for (int i = threadIdx.x; i < count; i += blockDim.x) local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[x[i]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += blockDim.x) atomicAdd(&bins[i], local[i]);
}

__global__ void sum_float(const float* x, float* total, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(total, x[i]);
}

__global__ void sum_double(const float* x, double* total, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(total, static_cast<double>(x[i]));
}

__device__ float atomic_max_float(float* address, float value) {
    int* word = reinterpret_cast<int*>(address);
    int old = *word, assumed;
    do {
        assumed = old;
        if (__int_as_float(assumed) >= value) break;
        old = atomicCAS(word, assumed, __float_as_int(value));
    } while (assumed != old);
    return __int_as_float(old);
}
__global__ void column_max(const float* x, float* top, int rows, int columns) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (column < columns && row < rows) atomic_max_float(&top[column], x[row * columns + column]);
}

__global__ void half_counts(const int* keys, __half* counts, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&counts[keys[i]], __float2half(0.5f));
}

__global__ void integer_bounds(const int* x, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    atomicMin(&out[0], x[i]);
    atomicMax(&out[1], x[i]);
    atomicOr(reinterpret_cast<unsigned*>(&out[2]), static_cast<unsigned>(x[i]));
    atomicAnd(reinterpret_cast<unsigned*>(&out[3]), static_cast<unsigned>(x[i]));
    atomicXor(&out[4], x[i]);
}

__global__ void wide_sum(const int* x, unsigned long long* total, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(total, static_cast<unsigned long long>(x[i]) << 24);
}

__global__ void scatter_add(const float* x, const int64_t* rows, float* out, int n, int width) {
    int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
    if (i < static_cast<int64_t>(n) * width) atomicAdd(&out[rows[i / width] * width + i % width], x[i]);
}

// The last block to finish adds what the others left in `parts`.
__global__ void sum_last_block(const float* x, volatile float* parts, unsigned* ticket, float* total, int n) {
    __shared__ float cache[128];
    __shared__ bool is_last;
    float own = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) own += x[i];
    cache[threadIdx.x] = own;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half >>= 1) {
        if (threadIdx.x < half) cache[threadIdx.x] += cache[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = cache[0];
        __threadfence();
        is_last = atomicInc(ticket, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (!is_last || threadIdx.x != 0) return;
    float sum = 0;
    for (unsigned b = 0; b < gridDim.x; ++b) sum += parts[b];
    *total = sum;
}

// A lock that a thread of each warp takes in turn.
__global__ void locked_count(int* lock, volatile int* count) {
    if (threadIdx.x % 32 == 0) {
        while (atomicCAS(lock, 0, 1) != 0) {}
        __threadfence();
        *count = *count + 1;
        __threadfence();
        atomicExch(lock, 0);
    }
}

}  // namespace

extern "C" void histogram_launcher(const int* x, int* bins, int n, int count, cudaStream_t stream) {
    histogram<<<4, 128, count * sizeof(int), stream>>>(x, bins, n, count);
}
extern "C" void sum_float_launcher(const float* x, float* total, int n, cudaStream_t stream) {
    sum_float<<<(n + 127) / 128, 128, 0, stream>>>(x, total, n);
}
extern "C" void sum_double_launcher(const float* x, double* total, int n, cudaStream_t stream) {
    sum_double<<<(n + 127) / 128, 128, 0, stream>>>(x, total, n);
}
extern "C" void column_max_launcher(const float* x, float* top, int rows, int columns, cudaStream_t stream) {
    column_max<<<dim3((columns + 63) / 64, rows), 64, 0, stream>>>(x, top, rows, columns);
}
extern "C" void half_counts_launcher(const int* keys, __half* counts, int n, cudaStream_t stream) {
    half_counts<<<(n + 127) / 128, 128, 0, stream>>>(keys, counts, n);
}
extern "C" void integer_bounds_launcher(const int* x, int* out, int n, cudaStream_t stream) {
    integer_bounds<<<(n + 127) / 128, 128, 0, stream>>>(x, out, n);
}
extern "C" void wide_sum_launcher(const int* x, unsigned long long* total, int n, cudaStream_t stream) {
    wide_sum<<<(n + 127) / 128, 128, 0, stream>>>(x, total, n);
}
extern "C" void scatter_add_launcher(const float* x, const int64_t* rows, float* out, int n, int width,
                                     cudaStream_t stream) {
    scatter_add<<<(n * width + 127) / 128, 128, 0, stream>>>(x, rows, out, n, width);
}
extern "C" void sum_last_block_launcher(const float* x, float* parts, unsigned* ticket, float* total, int n,
                                        cudaStream_t stream) {
    sum_last_block<<<8, 128, 0, stream>>>(x, parts, ticket, total, n);
}
extern "C" void locked_count_launcher(int* lock, int* count, cudaStream_t stream) {
    locked_count<<<4, 128, 0, stream>>>(lock, count);
}
