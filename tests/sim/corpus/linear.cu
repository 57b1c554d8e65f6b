// Products, convolutions, pooling, attention.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

__global__ void gemm_naive(const float* a, const float* b, float* c, int m, int n, int k) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || column >= n) return;
    float sum = 0;
    for (int i = 0; i < k; ++i) sum = fmaf(a[row * k + i], b[i * n + column], sum);
    c[row * n + column] = sum;
}

__device__ __forceinline__ float wide(float x) { return x; }
__device__ __forceinline__ float wide(__half x) { return __half2float(x); }
__device__ __forceinline__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }
template <typename T>
__device__ T narrow(float x);
template <>
__device__ __forceinline__ float narrow<float>(float x) { return x; }
template <>
__device__ __forceinline__ __half narrow<__half>(float x) { return __float2half(x); }
template <>
__device__ __forceinline__ __nv_bfloat16 narrow<__nv_bfloat16>(float x) { return __float2bfloat16(x); }

template <typename T, int TILE>
__global__ void __launch_bounds__(TILE* TILE) gemm_tiled(const T* __restrict__ a, const T* __restrict__ b, T* c, int m,
                                                        int n, int k) {
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int start = 0; start < k; start += TILE) {
        int i = start + threadIdx.x, j = start + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < m && i < k ? wide(a[row * k + i]) : 0.0f;
        right[threadIdx.y][threadIdx.x] = column < n && j < k ? wide(b[j * n + column]) : 0.0f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; ++i) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = narrow<T>(sum);
}

// Each thread computes 4 × 4 outputs from registers.
__global__ void gemm_registers(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float left[8][64], right[8][64];
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16, row0 = blockIdx.y * 64, column0 = blockIdx.x * 64;
    float sums[4][4] = {};
    for (int start = 0; start < k; start += 8) {
        for (int i = threadIdx.x; i < 512; i += 256) {
            int r = row0 + i / 8, d = start + i % 8, e = start + i / 64, q = column0 + i % 64;
            left[i % 8][i / 8] = r < m && d < k ? a[r * k + d] : 0.0f;
            right[i / 64][i % 64] = e < k && q < n ? b[e * n + q] : 0.0f;
        }
        __syncthreads();
        for (int d = 0; d < 8; ++d)
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) sums[i][j] += left[d][ty * 4 + i] * right[d][tx * 4 + j];
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            int row = row0 + ty * 4 + i, column = column0 + tx * 4 + j;
            if (row < m && column < n) c[row * n + column] = sums[i][j];
        }
}

__global__ void gemv_half2(const __half2* a, const __half2* x, float* y, int rows, int pairs) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    float sum = 0;
    for (int i = threadIdx.x; i < pairs; i += 32) {
        float2 left = __half22float2(a[row * pairs + i]), right = __half22float2(x[i]);
        sum += left.x * right.x + left.y * right.y;
    }
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (threadIdx.x == 0) y[row] = sum;
}

__global__ void batched_gemm(const float* a, const float* b, float* c, int m, int n, int k) {
    a += blockIdx.z * m * k;
    b += blockIdx.z * k * n;
    c += blockIdx.z * m * n;
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || column >= n) return;
    float sum = 0;
    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];
    c[(row * n) + column] = sum;
}

__global__ void conv1d(const float* x, const float* w, float* y, int in, int length, int taps) {
    extern __shared__ float window[];
    int out_length = length - taps + 1, start = blockIdx.x * blockDim.x, p = start + threadIdx.x;
    float sum = 0;
    for (int c = 0; c < in; ++c) {
        for (int i = threadIdx.x; i < blockDim.x + taps - 1; i += blockDim.x)
            window[i] = start + i < length ? x[(blockIdx.z * in + c) * length + start + i] : 0.0f;
        __syncthreads();
        for (int s = 0; s < taps; ++s) sum += window[threadIdx.x + s] * w[(blockIdx.y * in + c) * taps + s];
        __syncthreads();
    }
    if (p < out_length) y[(blockIdx.z * gridDim.y + blockIdx.y) * out_length + p] = sum;
}

struct Shape {
    int in, height, width, taps, stride, pad;
    __host__ __device__ int out(int size) const { return (size + 2 * pad - taps) / stride + 1; }
};
template <bool DEPTHWISE>
__global__ void conv2d(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, Shape shape) {
    int out_h = shape.out(shape.height), out_w = shape.out(shape.width);
    int q = blockIdx.x * blockDim.x + threadIdx.x, p = blockIdx.y * blockDim.y + threadIdx.y, k = blockIdx.z;
    if (p >= out_h || q >= out_w) return;
    float sum = 0;
    int channels = DEPTHWISE ? 1 : shape.in;
    for (int c = 0; c < channels; ++c)
        for (int r = 0; r < shape.taps; ++r)
            for (int s = 0; s < shape.taps; ++s) {
                int h = p * shape.stride - shape.pad + r, v = q * shape.stride - shape.pad + s;
                if (h < 0 || h >= shape.height || v < 0 || v >= shape.width) continue;
                int channel = DEPTHWISE ? k : c;
                sum += x[(channel * shape.height + h) * shape.width + v] *
                       w[((k * channels + c) * shape.taps + r) * shape.taps + s];
            }
    y[(k * out_h + p) * out_w + q] = sum;
}

__global__ void pool2x2(const float* x, float* largest, float* average, int height, int width) {
    int q = blockIdx.x * blockDim.x + threadIdx.x, p = blockIdx.y, c = blockIdx.z;
    if (q >= width / 2) return;
    float top = -INFINITY, sum = 0;
    for (int r = 0; r < 2; ++r)
        for (int s = 0; s < 2; ++s) {
            float value = x[(c * height + 2 * p + r) * width + 2 * q + s];
            top = fmaxf(top, value);
            sum += value;
        }
    int to = (c * (height / 2) + p) * (width / 2) + q;
    largest[to] = top;
    average[to] = sum * 0.25f;
}

// One query a warp, with the running maximum and sum of an online softmax; width 64.
__global__ void attention(const float* q, const float* k, const float* v, float* out, int length, float scale) {
    int lane = threadIdx.x, query = blockIdx.x;
    float q0 = q[query * 64 + lane] * scale, q1 = q[query * 64 + 32 + lane] * scale;
    float top = -INFINITY, sum = 0, o0 = 0, o1 = 0;
    for (int j = 0; j <= query && j < length; ++j) {
        float score = q0 * k[j * 64 + lane] + q1 * k[j * 64 + 32 + lane];
        for (int offset = 16; offset > 0; offset /= 2) score += __shfl_xor_sync(0xffffffffu, score, offset);
        float higher = fmaxf(top, score), keep = __expf(top - higher), add = __expf(score - higher);
        sum = sum * keep + add;
        o0 = o0 * keep + add * v[j * 64 + lane];
        o1 = o1 * keep + add * v[j * 64 + 32 + lane];
        top = higher;
    }
    out[query * 64 + lane] = o0 / sum;
    out[query * 64 + 32 + lane] = o1 / sum;
}

}  // namespace

extern "C" void gemm_naive_launcher(const float* a, const float* b, float* c, int m, int n, int k, cudaStream_t stream) {
    gemm_naive<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16), 0, stream>>>(a, b, c, m, n, k);
}
extern "C" void gemm_tiled_launcher(const float* a, const float* b, float* c, int m, int n, int k, cudaStream_t stream) {
    gemm_tiled<float, 16><<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16), 0, stream>>>(a, b, c, m, n, k);
}
extern "C" void gemm_half_launcher(const __half* a, const __half* b, __half* c, int m, int n, int k, cudaStream_t stream) {
    gemm_tiled<__half, 32><<<dim3((n + 31) / 32, (m + 31) / 32), dim3(32, 32), 0, stream>>>(a, b, c, m, n, k);
}
extern "C" void gemm_bf16_launcher(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int m, int n, int k,
                                   cudaStream_t stream) {
    gemm_tiled<__nv_bfloat16, 8><<<dim3((n + 7) / 8, (m + 7) / 8), dim3(8, 8), 0, stream>>>(a, b, c, m, n, k);
}
extern "C" void gemm_registers_launcher(const float* a, const float* b, float* c, int m, int n, int k,
                                        cudaStream_t stream) {
    gemm_registers<<<dim3((n + 63) / 64, (m + 63) / 64), 256, 0, stream>>>(a, b, c, m, n, k);
}
extern "C" void gemv_half2_launcher(const __half2* a, const __half2* x, float* y, int rows, int width,
                                    cudaStream_t stream) {
    gemv_half2<<<(rows + 3) / 4, dim3(32, 4), 0, stream>>>(a, x, y, rows, width / 2);
}
extern "C" void batched_gemm_launcher(const float* a, const float* b, float* c, int batch, int m, int n, int k,
                                      cudaStream_t stream) {
    batched_gemm<<<dim3((n + 7) / 8, (m + 7) / 8, batch), dim3(8, 8), 0, stream>>>(a, b, c, m, n, k);
}
extern "C" void conv1d_launcher(const float* x, const float* w, float* y, int batch, int in, int out, int length, int taps,
                                cudaStream_t stream) {
    dim3 grid((length - taps + 64) / 64, out, batch);
    conv1d<<<grid, 64, (64 + taps - 1) * sizeof(float), stream>>>(x, w, y, in, length, taps);
}
extern "C" void conv2d_launcher(const float* x, const float* w, float* y, int in, int out, int height, int width, int taps,
                                int stride, int pad, cudaStream_t stream) {
    Shape shape{in, height, width, taps, stride, pad};
    dim3 grid((shape.out(width) + 15) / 16, (shape.out(height) + 3) / 4, out);
    conv2d<false><<<grid, dim3(16, 4), 0, stream>>>(x, w, y, shape);
}
extern "C" void depthwise_launcher(const float* x, const float* w, float* y, int channels, int height, int width, int taps,
                                   cudaStream_t stream) {
    Shape shape{channels, height, width, taps, 1, taps / 2};
    dim3 grid((shape.out(width) + 15) / 16, (shape.out(height) + 3) / 4, channels);
    conv2d<true><<<grid, dim3(16, 4), 0, stream>>>(x, w, y, shape);
}
extern "C" void pool2x2_launcher(const float* x, float* largest, float* average, int channels, int height, int width,
                                 cudaStream_t stream) {
    pool2x2<<<dim3((width / 2 + 31) / 32, height / 2, channels), 32, 0, stream>>>(x, largest, average, height, width);
}
extern "C" void attention_launcher(const float* q, const float* k, const float* v, float* out, int length, float scale,
                                   cudaStream_t stream) {
    attention<<<length, 32, 0, stream>>>(q, k, v, out, length, scale);
}
