#pragma once
#include "warpsmith_sim.h"

#include <c10/util/Exception.h>

#define C10_CUDA_CHECK(EXPR)                                                                       \
    do {                                                                                           \
        const cudaError_t wsim_error = (EXPR);                                                     \
        TORCH_CHECK(wsim_error == cudaSuccess, "CUDA error: ", cudaGetErrorString(wsim_error));    \
    } while (0)
#define C10_CUDA_CHECK_WARN(EXPR) C10_CUDA_CHECK(EXPR)
#define C10_CUDA_ERROR_HANDLED(EXPR) (EXPR)
#define C10_CUDA_IGNORE_ERROR(EXPR) ((void)(EXPR))
#define C10_CUDA_CLEAR_ERROR() ((void)cudaGetLastError())
// Peeks: the error stays for whoever asks the shared object afterwards.
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaPeekAtLastError())
