#pragma once
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cublas_v2.h>

#define AT_CUDA_CHECK(EXPR) C10_CUDA_CHECK(EXPR)

namespace at::cuda {
inline cudaDeviceProp* getCurrentDeviceProperties() {
    static cudaDeviceProp properties = [] {
        cudaDeviceProp filled;
        cudaGetDeviceProperties(&filled, 0);
        return filled;
    }();
    return &properties;
}
inline cudaDeviceProp* getDeviceProperties(c10::DeviceIndex) { return getCurrentDeviceProperties(); }
inline cublasHandle_t getCurrentCUDABlasHandle() {
    static cublasContext context;
    return &context;
}
inline int warp_size() { return 32; }
inline bool is_available() { return true; }
}  // namespace at::cuda
