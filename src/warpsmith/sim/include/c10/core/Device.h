// On the simulator a tensor of the CPU answers as one of the GPU would: Device::is_cuda() is true for it.
#pragma once
#include <c10/core/DeviceType.h>
#include <c10/macros/Export.h>
#include <c10/util/Exception.h>

#define CUDA CPU
#include_next <c10/core/Device.h>
#undef CUDA
