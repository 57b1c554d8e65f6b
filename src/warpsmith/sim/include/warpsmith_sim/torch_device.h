// Included after PyTorch's own headers: code that names the CUDA device means the CPU here.
#pragma once
#include <c10/core/DeviceType.h>
#define kCUDA kCPU
