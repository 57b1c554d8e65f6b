"""C++ of matrix products through cuBLASLt."""

from __future__ import annotations

from warpsmith.optimizer.ir import C_TYPES
from warpsmith.optimizer.library import CHOICES, Gemm, Library, Math

WORKSPACE_BYTES = 32 << 20
"""What an algorithm may ask for: what NVIDIA recommends for Hopper, and what PyTorch gives it there."""
_TYPES = {"float32": "CUDA_R_32F", "float16": "CUDA_R_16F", "bfloat16": "CUDA_R_16BF"}
_EPILOGUES = {
    (False, ""): "CUBLASLT_EPILOGUE_DEFAULT",
    (True, ""): "CUBLASLT_EPILOGUE_BIAS",
    (False, "relu"): "CUBLASLT_EPILOGUE_RELU",
    (True, "relu"): "CUBLASLT_EPILOGUE_RELU_BIAS",
    (False, "gelu"): "CUBLASLT_EPILOGUE_GELU",
    (True, "gelu"): "CUBLASLT_EPILOGUE_GELU_BIAS",
}

SUPPORT = f"""
// out = act(alpha · left · right + beta · addend + bias) in the library's terms, which are column-major: its first
// matrix is our right one, and it makes the transpose of our result.
struct Gemm {{
    cudaDataType type;
    cublasComputeType_t compute;
    cublasLtEpilogue_t epilogue;
    uint64_t rows, columns, inner;
    int batches;
    cublasOperation_t left, right;
    int64_t left_leading, right_leading, left_step, right_step;
    float alpha, beta;
    int choice;
}};
struct GemmPlan {{
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t first, second, out;
    cublasLtMatmulAlgo_t algorithm;
    size_t bytes;
    uint32_t alignment = 0;
}};

cublasLtHandle_t blas_handle(int device) {{
    static cublasLtHandle_t handles[kDevices];
    if (!handles[device] && cublasLtCreate(&handles[device]) != CUBLAS_STATUS_SUCCESS) handles[device] = nullptr;
    return handles[device];
}}

// Bytes, up to 256, that all of the addresses are multiples of.
uint32_t common_alignment(const void* a, const void* b, const void* c, const void* d) {{
    uintptr_t all = 256 | reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b) |
                    reinterpret_cast<uintptr_t>(c) | reinterpret_cast<uintptr_t>(d);
    return static_cast<uint32_t>(all & (~all + 1));
}}

cublasLtMatrixLayout_t layout_of(cudaDataType type, uint64_t rows, uint64_t columns, int64_t leading, int batches,
                                 int64_t step) {{
    cublasLtMatrixLayout_t layout = nullptr;
    if (cublasLtMatrixLayoutCreate(&layout, type, rows, columns, leading) != CUBLAS_STATUS_SUCCESS) return nullptr;
    int32_t count = batches;
    cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step);
    return layout;
}}

cublasStatus_t describe_gemm(GemmPlan& plan, const Gemm& g) {{
    cublasStatus_t status = cublasLtMatmulDescCreate(&plan.desc, g.compute, CUDA_R_32F);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    cublasLtMatmulDescSetAttribute(plan.desc, CUBLASLT_MATMUL_DESC_TRANSA, &g.right, sizeof g.right);
    cublasLtMatmulDescSetAttribute(plan.desc, CUBLASLT_MATMUL_DESC_TRANSB, &g.left, sizeof g.left);
    cublasLtMatmulDescSetAttribute(plan.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &g.epilogue, sizeof g.epilogue);
    const bool flip_right = g.right != CUBLAS_OP_N, flip_left = g.left != CUBLAS_OP_N;
    plan.first = layout_of(g.type, flip_right ? g.inner : g.columns, flip_right ? g.columns : g.inner,
                           g.right_leading, g.batches, g.right_step);
    plan.second = layout_of(g.type, flip_left ? g.rows : g.inner, flip_left ? g.inner : g.rows, g.left_leading,
                            g.batches, g.left_step);
    plan.out = layout_of(g.type, g.columns, g.rows, static_cast<int64_t>(g.columns), g.batches,
                         static_cast<int64_t>(g.rows * g.columns));
    return plan.first && plan.second && plan.out ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}}

// The heuristic's choice for operands that are aligned to `alignment` bytes.
cublasStatus_t choose_gemm(GemmPlan& plan, const Gemm& g, cublasLtHandle_t handle, uint32_t alignment) {{
    cublasLtMatmulPreference_t wanted;
    cublasStatus_t status = cublasLtMatmulPreferenceCreate(&wanted);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    const size_t limit = {WORKSPACE_BYTES};
    cublasLtMatmulPreferenceSetAttribute(wanted, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit, sizeof limit);
    for (auto attribute : {{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                           CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}})
        cublasLtMatmulPreferenceSetAttribute(wanted, attribute, &alignment, sizeof alignment);
    cublasLtMatmulHeuristicResult_t found[{CHOICES}];
    int count = 0;
    status = cublasLtMatmulAlgoGetHeuristic(handle, plan.desc, plan.first, plan.second, plan.out, plan.out, wanted,
                                            {CHOICES}, found, &count);
    cublasLtMatmulPreferenceDestroy(wanted);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    if (count == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
    const auto& chosen = found[g.choice < count ? g.choice : 0];
    plan.algorithm = chosen.algo;
    plan.bytes = chosen.workspaceSize;
    plan.alignment = alignment;
    return chosen.state;
}}

void run_gemm(GemmPlan (&plans)[kDevices], const Gemm& g, void* out, const void* left, const void* right,
              const void* bias, const void* addend, cudaStream_t stream) {{
    const std::lock_guard<std::mutex> guard(library_lock());
    const int device = current_device();
    const cublasLtHandle_t handle = device < 0 ? nullptr : blas_handle(device);
    if (!handle) return refuse("cublasLtCreate", CUBLAS_STATUS_NOT_INITIALIZED, stream);
    GemmPlan& plan = plans[device];
    const void* added = addend ? addend : out;
    cublasStatus_t status = plan.desc ? CUBLAS_STATUS_SUCCESS : describe_gemm(plan, g);
    if (status != CUBLAS_STATUS_SUCCESS) return refuse("cuBLASLt descriptors", status, stream);
    if (bias)
        cublasLtMatmulDescSetAttribute(plan.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    const uint32_t alignment = common_alignment(left, right, added, out);
    if (alignment < plan.alignment || plan.alignment == 0) status = choose_gemm(plan, g, handle, alignment);
    if (status != CUBLAS_STATUS_SUCCESS) return refuse("cublasLtMatmulAlgoGetHeuristic", status, stream);
    void* space = workspace(device, stream, plan.bytes);
    if (plan.bytes && !space) return refuse("cuBLASLt workspace", CUBLAS_STATUS_ALLOC_FAILED, stream);
    status = cublasLtMatmul(handle, plan.desc, &g.alpha, right, plan.first, left, plan.second, &g.beta, added,
                            plan.out, out, plan.out, &plan.algorithm, space, plan.bytes, stream);
    if (status != CUBLAS_STATUS_SUCCESS) refuse("cublasLtMatmul", status, stream);
}}
"""


def describe(step: Library, spec: Gemm) -> str:
    """One line about a product."""
    with_ = ["alpha"] * (spec.alpha != 1) + ["addend"] * (spec.beta != 0) + ["bias"] * spec.bias
    with_ += [spec.activation] if spec.activation else []
    stack = f"{spec.batches} × " if spec.batches > 1 else ""
    size = f"{stack}[{spec.rows} × {spec.inner}] · [{spec.inner} × {spec.columns}]"
    name = step.label[1] if step.label else "matmul"
    within = f", {' and '.join(with_)} in its epilogue" if with_ else ""
    return f"{name}: cuBLASLt, {size}{within}{' in TF32' if _tf32(spec) else ''}"


def _tf32(spec: Gemm) -> bool:
    return spec.dtype == "float32" and spec.math is Math.TF32


def pointers(spec: Gemm, given: list[str]) -> list[str]:
    """Left, right, bias and addend, `nullptr` for those that are absent."""
    rest = iter(given[2:])
    return [
        *given[:2],
        next(rest) if spec.bias else "nullptr",
        next(rest) if spec.beta != 0 else "nullptr",
    ]


def function(step: Library, spec: Gemm) -> str:
    """`name(out, left, right, bias, addend, stream)`."""
    ctype = C_TYPES[spec.dtype]
    compute = "CUBLAS_COMPUTE_32F_FAST_TF32" if _tf32(spec) else "CUBLAS_COMPUTE_32F"
    ops = ["CUBLAS_OP_T" if side.transposed else "CUBLAS_OP_N" for side in (spec.left, spec.right)]
    fields = [
        f".type = {_TYPES[spec.dtype]}, .compute = {compute}, .epilogue = {_EPILOGUES[spec.bias, spec.activation]}",
        f".rows = {spec.rows}, .columns = {spec.columns}, .inner = {spec.inner}, .batches = {spec.batches}",
        f".left = {ops[0]}, .right = {ops[1]}",
        f".left_leading = {spec.left.leading}, .right_leading = {spec.right.leading}",
        f".left_step = {spec.left.step}, .right_step = {spec.right.step}",
        f".alpha = {spec.alpha!r}f, .beta = {spec.beta!r}f, .choice = {spec.choice}",
    ]
    inside = ",\n        ".join(fields)
    return (
        f"// {describe(step, spec)}\n"
        f"void {step.name}({ctype}* out, const {ctype}* left, const {ctype}* right, const {ctype}* bias,\n"
        f"    const {ctype}* addend, cudaStream_t stream) {{\n"
        f"    static GemmPlan plans[kDevices];\n"
        f"    const Gemm gemm{{\n        {inside}}};\n"
        f"    run_gemm(plans, gemm, out, left, right, bias, addend, stream);\n}}\n"
    )
