#pragma once
#include "CUDAStream.h"

namespace c10::cuda {

struct CUDAGuard {
    template <class Device>
    explicit CUDAGuard(const Device&) {}
};
struct OptionalCUDAGuard {
    template <class... Device>
    explicit OptionalCUDAGuard(const Device&...) {}
};
struct CUDAStreamGuard {
    explicit CUDAStreamGuard(CUDAStream) {}
};

}  // namespace c10::cuda

namespace at::cuda {
using c10::cuda::CUDAGuard;
using c10::cuda::CUDAStreamGuard;
using c10::cuda::OptionalCUDAGuard;
}  // namespace at::cuda
