#pragma once
#include_next <torch/extension.h>
#include "warpsmith_sim/torch_device.h"
