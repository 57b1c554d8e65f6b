// On the simulator Tensor::is_cuda() is true for tensors of the CPU: TensorImpl compares its device with kCUDA.
#pragma once
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/Layout.h>
#include <c10/core/SafePyObject.h>
#include <c10/core/Storage.h>
#include <c10/core/SymbolicShapeMeta.h>
#include <c10/core/impl/PyObjectSlot.h>
#include <c10/core/impl/SizesAndStrides.h>

#define kCUDA kCPU
#include_next <c10/core/TensorImpl.h>
#undef kCUDA
