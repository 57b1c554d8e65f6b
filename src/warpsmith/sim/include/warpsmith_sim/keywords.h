// CUDA's keywords for g++, over the toolkit's own types and API prototypes.
#pragma once
#include <vector_types.h>
#include <cuda_runtime_api.h>
#include <vector_functions.h>
#include <library_types.h>

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <assert.h>
#include <time.h>

#undef __global__
#undef __device__
#undef __host__
#undef __constant__
#undef __shared__
#undef __managed__
#undef __grid_constant__
#undef __launch_bounds__
#undef __cluster_dims__
#undef __maxnreg__
#undef __noinline__  // libstdc++ writes __attribute__((__noinline__)); the rewriter replaces the CUDA keyword itself

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __cluster_dims__(...)

#define __WARPSMITH_SIM__ 1
#ifndef __builtin_assume
#define __builtin_assume(condition) ((void)0)
#endif
