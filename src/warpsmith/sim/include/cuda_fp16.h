#pragma once
#include "warpsmith_sim.h"
#include_next <cuda_fp16.h>

#include "warpsmith_sim/half_math.h"

WSIM_HALF_FUNCTIONS(__half, __half2, __half2float, __float2half, __floats2half2_rn)
inline int __half2int_rn(__half h) { return static_cast<int>(rintf(__half2float(h))); }
inline int __half2int_rd(__half h) { return static_cast<int>(floorf(__half2float(h))); }
inline int __half2int_ru(__half h) { return static_cast<int>(ceilf(__half2float(h))); }
inline unsigned __half2uint_rn(__half h) { return __float2uint_rn(__half2float(h)); }
inline short __half2short_rn(__half h) { return static_cast<short>(__float2int_rn(__half2float(h))); }
