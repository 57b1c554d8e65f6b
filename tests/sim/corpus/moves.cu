// Kernels that mostly move data: transposes, gathers, layouts, bytes.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void transpose_naive(const float* x, float* y, int rows, int columns) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns) y[column * rows + row] = x[row * columns + column];
}

template <typename T, int TILE, int ROWS>
__global__ void transpose_tiled(const T* __restrict__ x, T* __restrict__ y, int rows, int columns) {
    __shared__ T tile[TILE][TILE + 1];
    int column = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * TILE + threadIdx.y;
#pragma unroll
    for (int i = 0; i < TILE; i += ROWS)
        if (row + i < rows && column < columns) tile[threadIdx.y + i][threadIdx.x] = x[(row + i) * columns + column];
    __syncthreads();
    column = blockIdx.y * TILE + threadIdx.x;
    row = blockIdx.x * TILE + threadIdx.y;
#pragma unroll
    for (int i = 0; i < TILE; i += ROWS)
        if (row + i < columns && column < rows) y[(row + i) * rows + column] = tile[threadIdx.x][threadIdx.y + i];
}

__global__ void scale_float4(const float4* __restrict__ x, float4* __restrict__ y, float factor, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float4 v = __ldg(&x[i]);
        v.x *= factor, v.y *= factor, v.z *= factor, v.w *= factor;
        y[i] = v;
    }
}

__global__ void embed(const float* table, const int64_t* ids, float* y, int width) {
    int64_t row = ids[blockIdx.x];
    for (int i = threadIdx.x; i < width; i += blockDim.x) y[blockIdx.x * int64_t{1} * width + i] = table[row * width + i];
}

struct Box {
    int depth, height, width, border;
};
__global__ void pad3d(const float* x, float* y, Box box) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    int k = blockIdx.z * blockDim.z + threadIdx.z, b = box.border;
    int width = box.width + 2 * b, height = box.height + 2 * b, depth = box.depth + 2 * b;
    if (i >= width || j >= height || k >= depth) return;
    bool inside = i >= b && i < b + box.width && j >= b && j < b + box.height && k >= b && k < b + box.depth;
    float value = inside ? x[((k - b) * box.height + j - b) * box.width + i - b] : 0.0f;
    y[(k * height + j) * width + i] = value;
}

__global__ void im2col(const float* x, float* y, int channels, int height, int width, int kernel) {
    int out_h = height - kernel + 1, out_w = width - kernel + 1;
    int64_t total = int64_t{1} * channels * kernel * kernel * out_h * out_w;
    for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < total; i += int64_t{gridDim.x} * blockDim.x) {
        int q = i % out_w, p = i / out_w % out_h;
        int s = i / (out_w * out_h) % kernel, r = i / (out_w * out_h * kernel) % kernel;
        int c = i / (int64_t{1} * out_w * out_h * kernel * kernel);
        y[i] = x[(c * height + p + r) * width + q + s];
    }
}

__global__ void swap_bytes(const unsigned* x, unsigned* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __byte_perm(x[i], 0, 0x0123);
}

__global__ void reverse_block(int* x) {
    extern __shared__ int copy[];
    int t = threadIdx.x;
    copy[t] = x[blockIdx.x * blockDim.x + t];
    __syncthreads();
    x[blockIdx.x * blockDim.x + t] = copy[blockDim.x - 1 - t];
}

__global__ void roll(const int16_t* x, int16_t* y, int n, int shift) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int from = (i - shift) % n;
    y[i] = x[from < 0 ? from + n : from];
}

__global__ void clip_mask(const float* x, uint8_t* mask, bool* any, float limit, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool above = i < n && x[i] > limit;
    if (i < n) mask[i] = above;
    if (__syncthreads_or(above) && threadIdx.x == 0) any[blockIdx.x] = true;
    else if (threadIdx.x == 0) any[blockIdx.x] = false;
}

__global__ void bitonic_sort(float* x, int n) {
    extern __shared__ float values[];
    int t = threadIdx.x;
    values[t] = t < n ? x[t] : INFINITY;
    __syncthreads();
    for (int size = 2; size <= blockDim.x; size *= 2)
        for (int step = size / 2; step > 0; step /= 2) {
            int other = t ^ step;
            if (other > t) {
                bool up = (t & size) == 0;
                float a = values[t], b = values[other];
                if ((a > b) == up) {
                    values[t] = b;
                    values[other] = a;
                }
            }
            __syncthreads();
        }
    if (t < n) x[t] = values[t];
}

}  // namespace

extern "C" void transpose_naive_launcher(const float* x, float* y, int rows, int columns, cudaStream_t stream) {
    dim3 block(16, 16), grid((columns + 15) / 16, (rows + 15) / 16);
    transpose_naive<<<grid, block, 0, stream>>>(x, y, rows, columns);
}
extern "C" void transpose_tiled_launcher(const float* x, float* y, int rows, int columns, cudaStream_t stream) {
    dim3 grid((columns + 31) / 32, (rows + 31) / 32);
    transpose_tiled<float, 32, 8><<<grid, dim3(32, 8), 0, stream>>>(x, y, rows, columns);
}
extern "C" void transpose_bytes_launcher(const uint8_t* x, uint8_t* y, int rows, int columns, cudaStream_t stream) {
    dim3 grid((columns + 15) / 16, (rows + 15) / 16);
    transpose_tiled<uint8_t, 16, 4><<<grid, dim3(16, 4), 0, stream>>>(x, y, rows, columns);
}
extern "C" void scale_float4_launcher(const float4* x, float4* y, float factor, int n, cudaStream_t stream) {
    scale_float4<<<3, 64, 0, stream>>>(x, y, factor, n / 4);
}
extern "C" void embed_launcher(const float* table, const int64_t* ids, float* y, int count, int width,
                               cudaStream_t stream) {
    embed<<<count, 64, 0, stream>>>(table, ids, y, width);
}
extern "C" void pad3d_launcher(const float* x, float* y, int depth, int height, int width, int border,
                               cudaStream_t stream) {
    Box box{depth, height, width, border};
    dim3 block(8, 4, 2);
    dim3 grid((width + 2 * border + 7) / 8, (height + 2 * border + 3) / 4, (depth + 2 * border + 1) / 2);
    pad3d<<<grid, block, 0, stream>>>(x, y, box);
}
extern "C" void im2col_launcher(const float* x, float* y, int channels, int height, int width, int kernel,
                                cudaStream_t stream) {
    im2col<<<5, 128, 0, stream>>>(x, y, channels, height, width, kernel);
}
extern "C" void swap_bytes_launcher(const unsigned* x, unsigned* y, int n, cudaStream_t stream) {
    swap_bytes<<<(n + 63) / 64, 64, 0, stream>>>(x, y, n);
}
extern "C" void reverse_block_launcher(int* x, int n, cudaStream_t stream) {
    reverse_block<<<n / 96, 96, 96 * sizeof(int), stream>>>(x);
}
extern "C" void roll_launcher(const int16_t* x, int16_t* y, int n, int shift, cudaStream_t stream) {
    roll<<<(n + 63) / 64, 64, 0, stream>>>(x, y, n, shift);
}
extern "C" void clip_mask_launcher(const float* x, uint8_t* mask, bool* any, float limit, int n, cudaStream_t stream) {
    clip_mask<<<(n + 63) / 64, 64, 0, stream>>>(x, mask, any, limit, n);
}
extern "C" void bitonic_sort_launcher(float* x, int n, cudaStream_t stream) {
    bitonic_sort<<<1, 512, 512 * sizeof(float), stream>>>(x, n);
}
