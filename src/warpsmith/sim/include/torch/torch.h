#pragma once
#include_next <torch/torch.h>
#include "warpsmith_sim/torch_device.h"
