#pragma once
#include <cuda_fp16.h>
#include_next <cuda_bf16.h>

WSIM_HALF_FUNCTIONS(__nv_bfloat16, __nv_bfloat162, __bfloat162float, __float2bfloat16, __floats2bfloat162_rn)
inline int __bfloat162int_rn(__nv_bfloat16 h) { return static_cast<int>(rintf(__bfloat162float(h))); }
