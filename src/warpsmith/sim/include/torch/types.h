#pragma once
#include_next <torch/types.h>
#include "warpsmith_sim/torch_device.h"
