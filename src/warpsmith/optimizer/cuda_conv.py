"""C++ of convolutions through cuDNN."""

from __future__ import annotations

from warpsmith.optimizer.ir import C_TYPES
from warpsmith.optimizer.library import CHOICES, Conv, Library, Math

WORKSPACE_BYTES = 512 << 20
"""What an algorithm may ask for."""
_TYPES = {"float32": "CUDNN_DATA_FLOAT", "float16": "CUDNN_DATA_HALF", "bfloat16": "CUDNN_DATA_BFLOAT16"}

SUPPORT = f"""
// A convolution of `x` by `w` into `y` (packed, in the order N, C, then space), or backward from `y` to `x`; for each
// of `parts` parts of a batch.
struct Conv {{
    cudnnDataType_t type;
    cudnnMathType_t math;
    int axes;
    int x[5], w[5], y[5], padding[3], stride[3], dilation[3];
    int groups, choice, parts;
}};
struct ConvPlan {{
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t conv;
    int algorithm;
    size_t bytes;
    bool ready = false;
}};

cudnnHandle_t dnn_handle(int device) {{
    static cudnnHandle_t handles[kDevices];
    if (!handles[device] && cudnnCreate(&handles[device]) != CUDNN_STATUS_SUCCESS) handles[device] = nullptr;
    return handles[device];
}}

// Where part `number` of a batch begins.
const void* part_of(const void* data, const Conv& c, const int (&size)[5], int number) {{
    size_t bytes = c.type == CUDNN_DATA_FLOAT ? 4 : 2;
    for (int i = 0; i < c.axes; ++i) bytes *= static_cast<size_t>(size[i]);
    return static_cast<const char*>(data) + bytes * static_cast<size_t>(number);
}}

cudnnStatus_t describe_packed_tensor(cudnnTensorDescriptor_t* tensor, const Conv& c, const int (&size)[5]) {{
    int step[5], elements = 1;
    for (int i = c.axes - 1; i >= 0; --i) {{
        step[i] = elements;
        elements *= size[i];
    }}
    const cudnnStatus_t status = cudnnCreateTensorDescriptor(tensor);
    return status ? status : cudnnSetTensorNdDescriptor(*tensor, c.type, c.axes, size, step);
}}

cudnnStatus_t describe_conv(ConvPlan& plan, const Conv& c) {{
    cudnnStatus_t status = describe_packed_tensor(&plan.x, c, c.x);
    if (!status) status = describe_packed_tensor(&plan.y, c, c.y);
    if (!status) status = cudnnCreateFilterDescriptor(&plan.w);
    if (!status) status = cudnnSetFilterNdDescriptor(plan.w, c.type, CUDNN_TENSOR_NCHW, c.axes, c.w);
    if (!status) status = cudnnCreateConvolutionDescriptor(&plan.conv);
    if (!status)
        status = cudnnSetConvolutionNdDescriptor(plan.conv, c.axes - 2, c.padding, c.stride, c.dilation,
                                                 CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
    if (!status) status = cudnnSetConvolutionGroupCount(plan.conv, c.groups);
    return status ? status : cudnnSetConvolutionMathType(plan.conv, c.math);
}}

// Takes the `choice`-th of the heuristic's algorithms that can run, is deterministic and asks for bounded memory.
template <class Found>
cudnnStatus_t choose_conv(ConvPlan& plan, const Conv& c, const Found* found, int count) {{
    const Found* chosen = nullptr;
    int place = 0;
    for (int i = 0; i < count; ++i) {{
        const Found& at = found[i];
        if (at.status || at.memory > {WORKSPACE_BYTES} || at.determinism == CUDNN_NON_DETERMINISTIC) continue;
        if (!chosen || place == c.choice) chosen = &at;
        ++place;
    }}
    if (!chosen) return CUDNN_STATUS_NOT_SUPPORTED;
    plan.algorithm = static_cast<int>(chosen->algo);
    plan.bytes = chosen->memory;
    plan.ready = true;
    return cudnnSetConvolutionMathType(plan.conv, chosen->mathType);
}}

// Handle, descriptors and workspace for this device and stream; null (and the caller told) where that fails.
template <class Choose>
cudnnHandle_t ready_conv(ConvPlan* plans, const Conv& c, ConvPlan** mine, void** space, cudaStream_t stream,
                         Choose choose) {{
    const int device = current_device();
    const cudnnHandle_t handle = device < 0 ? nullptr : dnn_handle(device);
    if (!handle) return refuse("cudnnCreate", CUDNN_STATUS_NOT_INITIALIZED, stream), nullptr;
    ConvPlan& plan = plans[device];
    *mine = &plan;
    cudnnStatus_t status = cudnnSetStream(handle, stream);
    if (!status && !plan.conv) status = describe_conv(plan, c);
    if (!status && !plan.ready) status = choose(handle, plan);
    if (status) return refuse("cuDNN's choice of an algorithm", status, stream), nullptr;
    *space = workspace(device, stream, plan.bytes);
    if (plan.bytes && !*space) return refuse("cuDNN workspace", CUDNN_STATUS_INTERNAL_ERROR, stream), nullptr;
    return handle;
}}
"""

FORWARD = f"""
void run_conv(ConvPlan (&plans)[kDevices], const Conv& c, void* out, const void* in, const void* filter,
              cudaStream_t stream) {{
    const std::lock_guard<std::mutex> guard(library_lock());
    ConvPlan* plan = nullptr;
    void* space = nullptr;
    const cudnnHandle_t handle =
        ready_conv(plans, c, &plan, &space, stream, [&](cudnnHandle_t with, ConvPlan& to) {{
            cudnnConvolutionFwdAlgoPerf_t found[{CHOICES}];
            int count = 0;
            const cudnnStatus_t status = cudnnGetConvolutionForwardAlgorithm_v7(with, to.x, to.w, to.conv, to.y,
                                                                                {CHOICES}, &count, found);
            return status ? status : choose_conv(to, c, found, count);
        }});
    if (!handle) return;
    const float one = 1.0f, zero = 0.0f;
    const auto algorithm = static_cast<cudnnConvolutionFwdAlgo_t>(plan->algorithm);
    for (int i = 0; i < c.parts; ++i) {{
        void* to = const_cast<void*>(part_of(out, c, c.y, i));
        const cudnnStatus_t status =
            cudnnConvolutionForward(handle, &one, plan->x, part_of(in, c, c.x, i), plan->w, filter, plan->conv,
                                    algorithm, space, plan->bytes, &zero, plan->y, to);
        if (status) return refuse("cudnnConvolutionForward", status, stream);
    }}
}}
"""

BACKWARD = f"""
void run_transposed_conv(ConvPlan (&plans)[kDevices], const Conv& c, void* out, const void* in, const void* filter,
                         cudaStream_t stream) {{
    const std::lock_guard<std::mutex> guard(library_lock());
    ConvPlan* plan = nullptr;
    void* space = nullptr;
    const cudnnHandle_t handle =
        ready_conv(plans, c, &plan, &space, stream, [&](cudnnHandle_t with, ConvPlan& to) {{
            cudnnConvolutionBwdDataAlgoPerf_t found[{CHOICES}];
            int count = 0;
            const cudnnStatus_t status = cudnnGetConvolutionBackwardDataAlgorithm_v7(with, to.w, to.y, to.conv, to.x,
                                                                                     {CHOICES}, &count, found);
            return status ? status : choose_conv(to, c, found, count);
        }});
    if (!handle) return;
    const float one = 1.0f, zero = 0.0f;
    const auto algorithm = static_cast<cudnnConvolutionBwdDataAlgo_t>(plan->algorithm);
    for (int i = 0; i < c.parts; ++i) {{
        void* to = const_cast<void*>(part_of(out, c, c.x, i));
        const cudnnStatus_t status =
            cudnnConvolutionBackwardData(handle, &one, plan->w, filter, plan->y, part_of(in, c, c.y, i), plan->conv,
                                         algorithm, space, plan->bytes, &zero, plan->x, to);
        if (status) return refuse("cudnnConvolutionBackwardData", status, stream);
    }}
}}
"""


def support(specs: list[Conv]) -> str:
    """The text that these convolutions call."""
    text = SUPPORT
    if any(not s.transposed for s in specs):
        text += FORWARD
    return text + BACKWARD if any(s.transposed for s in specs) else text


def _tf32(spec: Conv) -> bool:
    return spec.dtype == "float32" and spec.math is not Math.STRICT


def describe(step: Library, spec: Conv) -> str:
    """One line about a convolution."""
    name = step.label[1] if step.label else "convolution"
    shape = [" × ".join(map(str, s)) for s in (spec.sizes, spec.filter, spec.out)]
    groups = f" in {spec.groups} groups" if spec.groups > 1 else ""
    return f"{name}: cuDNN, [{shape[0]}] by [{shape[1]}]{groups} to [{shape[2]}]{' in TF32' if _tf32(spec) else ''}"


def function(step: Library, spec: Conv) -> str:
    """`name(out, in, filter, stream)`."""
    ctype = C_TYPES[spec.dtype]
    # what PyTorch asks for: its default for float32 lets TF32 in, and half types want tensor cores
    math = "CUDNN_DEFAULT_MATH" if _tf32(spec) else "CUDNN_FMA_MATH"
    math = math if spec.dtype == "float32" else "CUDNN_TENSOR_OP_MATH"
    x, y = (spec.out, spec.sizes) if spec.transposed else (spec.sizes, spec.out)
    listed = {"x": x, "w": spec.filter, "y": y}
    listed |= {"padding": spec.padding, "stride": spec.stride, "dilation": spec.dilation}
    arrays = [f".{name} = {{{', '.join(map(str, values))}}}" for name, values in listed.items()]
    fields = [
        f".type = {_TYPES[spec.dtype]}, .math = {math}, .axes = {len(spec.sizes)}",
        ", ".join(arrays[:3]),
        ", ".join(arrays[3:]),
        f".groups = {spec.groups}, .choice = {spec.choice}, .parts = {spec.parts}",
    ]
    inside = ",\n        ".join(fields)
    run = "run_transposed_conv" if spec.transposed else "run_conv"
    return (
        f"// {describe(step, spec)}\n"
        f"void {step.name}({ctype}* out, const {ctype}* in, const {ctype}* filter, cudaStream_t stream) {{\n"
        f"    static ConvPlan plans[kDevices];\n"
        f"    const Conv conv{{\n        {inside}}};\n"
        f"    {run}(plans, conv, out, in, filter, stream);\n}}\n"
    )
