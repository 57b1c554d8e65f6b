// PyTorch's stream: on the simulator there is one, and everything on it has finished when a call returns.
#pragma once
#include "warpsmith_sim.h"

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

namespace c10::cuda {

class CUDAStream {
public:
    cudaStream_t stream() const { return nullptr; }
    operator cudaStream_t() const { return nullptr; }
    void synchronize() const {}
    c10::DeviceIndex device_index() const { return 0; }
};
inline CUDAStream getCurrentCUDAStream(c10::DeviceIndex = -1) { return {}; }
inline CUDAStream getDefaultCUDAStream(c10::DeviceIndex = -1) { return {}; }
inline CUDAStream getStreamFromPool(bool = false, c10::DeviceIndex = -1) { return {}; }
inline c10::DeviceIndex current_device() { return 0; }

}  // namespace c10::cuda

namespace at::cuda {
using c10::cuda::CUDAStream;
using c10::cuda::getCurrentCUDAStream;
using c10::cuda::getDefaultCUDAStream;
using c10::cuda::getStreamFromPool;
}  // namespace at::cuda
