#pragma once
#include_next <torch/all.h>
#include "warpsmith_sim/torch_device.h"
