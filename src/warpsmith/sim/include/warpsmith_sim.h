// CUDA C++ on the CPU. A CUDA thread is a fiber, a block runs on one OS thread, blocks are spread over OS threads.
// Sources reach these headers after `warpsmith.sim.rewrite`; the runtime behind them is in warpsmith_sim_exports.inc.
#pragma once
#include "warpsmith_sim/keywords.h"

#include "warpsmith_sim/core.h"
#include "warpsmith_sim/launch.h"
#include "warpsmith_sim/shared.h"
#include "warpsmith_sim/warp.h"
#include "warpsmith_sim/atomics.h"
#include "warpsmith_sim/math.h"
#include "warpsmith_sim/intrinsics.h"
#include "warpsmith_sim/simd.h"
#include "warpsmith_sim/api.h"
