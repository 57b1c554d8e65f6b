#pragma once
#include "CUDAFunctions.h"

namespace c10::cuda::CUDACachingAllocator {
inline void emptyCache() {}
}  // namespace c10::cuda::CUDACachingAllocator
