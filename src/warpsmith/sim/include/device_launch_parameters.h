#pragma once
#include "warpsmith_sim.h"
