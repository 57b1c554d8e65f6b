// Layers of networks: normalisation, activations, losses, positions, random numbers, small floating point.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__device__ float warp_sum(float value) {
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_xor_sync(0xffffffffu, value, offset);
    return value;
}
template <int WARPS>
__device__ float block_sum(float value) {
    __shared__ float parts[WARPS];
    value = warp_sum(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < WARPS; ++i) sum += parts[i];
    return sum;
}

__global__ void softmax_online(const float* x, float* y, int width) {
    const float* row = x + blockIdx.x * width;
    float top = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < width; i += 32) {
        float higher = fmaxf(top, row[i]);
        sum = sum * expf(top - higher) + expf(row[i] - higher);
        top = higher;
    }
    for (int offset = 16; offset > 0; offset >>= 1) {
        float other = __shfl_xor_sync(0xffffffffu, top, offset), more = __shfl_xor_sync(0xffffffffu, sum, offset);
        float higher = fmaxf(top, other);
        sum = sum * expf(top - higher) + more * expf(other - higher);
        top = higher;
    }
    for (int i = threadIdx.x; i < width; i += 32) y[blockIdx.x * width + i] = expf(row[i] - top) / sum;
}

__global__ void layer_norm(const float* x, const float* gain, const float* bias, float* y, int width, float epsilon) {
    const float* row = x + blockIdx.x * width;
    float sum = 0, square = 0;
    for (int i = threadIdx.x; i < width; i += blockDim.x) sum += row[i];
    float mean = block_sum<4>(sum) / width;
    for (int i = threadIdx.x; i < width; i += blockDim.x) square += (row[i] - mean) * (row[i] - mean);
    float scale = rsqrtf(block_sum<4>(square) / width + epsilon);
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        y[blockIdx.x * width + i] = (row[i] - mean) * scale * gain[i] + bias[i];
}

__global__ void rms_norm_bf16(const __nv_bfloat162* x, const __nv_bfloat162* gain, __nv_bfloat162* y, int pairs) {
    float sum = 0;
    for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
        float2 v = __bfloat1622float2(x[blockIdx.x * pairs + i]);
        sum += v.x * v.x + v.y * v.y;
    }
    float scale = rsqrtf(block_sum<2>(sum) / (2 * pairs) + 1e-6f);
    for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
        float2 v = __bfloat1622float2(x[blockIdx.x * pairs + i]), g = __bfloat1622float2(gain[i]);
        y[blockIdx.x * pairs + i] = __floats2bfloat162_rn(v.x * scale * g.x, v.y * scale * g.y);
    }
}

__global__ void group_norm(const float* x, float* y, int channels, int groups, int plane) {
    int size = channels / groups * plane, start = blockIdx.x * size;
    float sum = 0, square = 0;
    for (int i = threadIdx.x; i < size; i += blockDim.x) {
        float v = x[start + i];
        sum += v;
        square += v * v;
    }
    sum = block_sum<4>(sum) / size;
    square = block_sum<4>(square) / size;
    float scale = rsqrtf(square - sum * sum + 1e-5f);
    for (int i = threadIdx.x; i < size; i += blockDim.x) y[start + i] = (x[start + i] - sum) * scale;
}

enum class Act { relu, gelu, silu, softplus };
template <Act ACT>
__device__ float activate(float x) {
    if constexpr (ACT == Act::relu) return fmaxf(x, 0.0f);
    else if constexpr (ACT == Act::gelu) return 0.5f * x * (1.0f + erff(x * 0.70710678f));
    else if constexpr (ACT == Act::silu) return x / (1.0f + __expf(-x));
    else return x > 20.0f ? x : log1pf(expf(x));
}
template <Act ACT>
__global__ void activation(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] = activate<ACT>(x[i]);
}

__global__ void cross_entropy(const float* logits, const int64_t* target, float* loss, int classes) {
    const float* row = logits + blockIdx.x * classes;
    float top = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < classes; i += 32) top = fmaxf(top, row[i]);
    for (int offset = 16; offset > 0; offset >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, offset));
    for (int i = threadIdx.x; i < classes; i += 32) sum += expf(row[i] - top);
    sum = warp_sum(sum);
    if (threadIdx.x == 0) loss[blockIdx.x] = logf(sum) + top - row[target[blockIdx.x]];
}

__global__ void rope(float2* x, int heads, int pairs, float base) {
    int position = blockIdx.x;
    for (int i = threadIdx.x; i < heads * pairs; i += blockDim.x) {
        float angle = position * powf(base, -static_cast<float>(i % pairs) / pairs), s, c;
        sincosf(angle, &s, &c);
        float2 v = x[position * heads * pairs + i];
        x[position * heads * pairs + i] = make_float2(v.x * c - v.y * s, v.x * s + v.y * c);
    }
}

// Philox 4 × 32 with 10 rounds.
__device__ uint4 philox(uint4 counter, uint2 key) {
    for (int round = 0; round < 10; ++round) {
        unsigned high0 = __umulhi(0xD2511F53u, counter.x), low0 = 0xD2511F53u * counter.x;
        unsigned high1 = __umulhi(0xCD9E8D57u, counter.z), low1 = 0xCD9E8D57u * counter.z;
        counter = make_uint4(high1 ^ counter.y ^ key.x, low1, high0 ^ counter.w ^ key.y, low0);
        key.x += 0x9E3779B9u;
        key.y += 0xBB67AE85u;
    }
    return counter;
}
__global__ void random_words(unsigned* y, unsigned seed, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (4 * i >= n) return;
    uint4 r = philox(make_uint4(i, 0, 0, 0), make_uint2(seed, 0));
    reinterpret_cast<uint4*>(y)[i] = r;
}

__global__ void axpy_half2(const __half2* x, __half2* y, __half factor, int pairs) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __half2 a = __half2half2(factor);
    if (i < pairs) y[i] = __hfma2(a, x[i], y[i]);
}
__global__ void half_math(const __half* x, __half* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __half v = __habs(x[i]);
    v = __hadd(hsqrt(v), __hmul(hexp(__hneg(v)), __float2half(0.5f)));
    y[i] = __hgt(v, __float2half(1.0f)) ? __hsub(v, __float2half(1.0f)) : v;
}
__global__ void bf16_add(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = __hadd(a[i], __hmul(b[i], __float2bfloat16(2.0f)));
}

__global__ void adam_step(float* weight, const float* gradient, float* m, float* v, float rate, int step, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float g = gradient[i];
    m[i] = 0.9f * m[i] + 0.1f * g;
    v[i] = 0.999f * v[i] + 0.001f * g * g;
    float m_hat = m[i] / (1.0f - powf(0.9f, step)), v_hat = v[i] / (1.0f - powf(0.999f, step));
    weight[i] -= rate * m_hat / (sqrtf(v_hat) + 1e-8f);
}

__global__ void math_mix(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i], a = fabsf(v) + 0.1f;
    float sum = __logf(a) + __sinf(v) + __cosf(v) + __fdividef(v, a) + rsqrtf(a) + cbrtf(v) + tanhf(v) + __saturatef(v);
    sum += fminf(v, 0.25f) + copysignf(a, v) + floorf(v) + rintf(v) + __frcp_rn(a) + exp2f(v) + __powf(a, 1.5f);
    y[i] = sum + erfcf(v) + lgammaf(a) + hypotf(v, a) + fmodf(v, 0.3f);
}

}  // namespace

extern "C" void softmax_online_launcher(const float* x, float* y, int rows, int width, cudaStream_t stream) {
    softmax_online<<<rows, 32, 0, stream>>>(x, y, width);
}
extern "C" void layer_norm_launcher(const float* x, const float* gain, const float* bias, float* y, int rows, int width,
                                    float epsilon, cudaStream_t stream) {
    layer_norm<<<rows, 128, 0, stream>>>(x, gain, bias, y, width, epsilon);
}
extern "C" void rms_norm_bf16_launcher(const __nv_bfloat162* x, const __nv_bfloat162* gain, __nv_bfloat162* y, int rows,
                                       int width, cudaStream_t stream) {
    rms_norm_bf16<<<rows, 64, 0, stream>>>(x, gain, y, width / 2);
}
extern "C" void group_norm_launcher(const float* x, float* y, int batch, int channels, int groups, int plane,
                                    cudaStream_t stream) {
    group_norm<<<batch * groups, 128, 0, stream>>>(x, y, channels, groups, plane);
}
extern "C" void activations_launcher(const float* x, float* y, int n, cudaStream_t stream) {
    int blocks = (n + 127) / 128;
    activation<Act::relu><<<blocks, 128, 0, stream>>>(x, y, n);
    activation<Act::gelu><<<blocks, 128, 0, stream>>>(x, y + n, n);
    activation<Act::silu><<<blocks, 128, 0, stream>>>(x, y + 2 * n, n);
    activation<Act::softplus><<<blocks, 128, 0, stream>>>(x, y + 3 * n, n);
}
extern "C" void cross_entropy_launcher(const float* logits, const int64_t* target, float* loss, int rows, int classes,
                                       cudaStream_t stream) {
    cross_entropy<<<rows, 32, 0, stream>>>(logits, target, loss, classes);
}
extern "C" void rope_launcher(float2* x, int length, int heads, int pairs, float base, cudaStream_t stream) {
    rope<<<length, 64, 0, stream>>>(x, heads, pairs, base);
}
extern "C" void random_words_launcher(unsigned* y, unsigned seed, int n, cudaStream_t stream) {
    random_words<<<(n / 4 + 63) / 64, 64, 0, stream>>>(y, seed, n);
}
extern "C" void axpy_half2_launcher(const __half2* x, __half2* y, __half factor, int n, cudaStream_t stream) {
    axpy_half2<<<(n / 2 + 63) / 64, 64, 0, stream>>>(x, y, factor, n / 2);
}
extern "C" void half_math_launcher(const __half* x, __half* y, int n, cudaStream_t stream) {
    half_math<<<(n + 63) / 64, 64, 0, stream>>>(x, y, n);
}
extern "C" void bf16_add_launcher(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int n,
                                  cudaStream_t stream) {
    bf16_add<<<(n + 63) / 64, 64, 0, stream>>>(a, b, c, n);
}
extern "C" void adam_step_launcher(float* weight, const float* gradient, float* m, float* v, float rate, int step, int n,
                                   cudaStream_t stream) {
    adam_step<<<(n + 63) / 64, 64, 0, stream>>>(weight, gradient, m, v, rate, step, n);
}
extern "C" void math_mix_launcher(const float* x, float* y, int n, cudaStream_t stream) {
    math_mix<<<(n + 63) / 64, 64, 0, stream>>>(x, y, n);
}
