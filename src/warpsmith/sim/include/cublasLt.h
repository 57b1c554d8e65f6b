// A stand-in for cublasLt: one matrix product with the plain epilogues. The heuristic offers one algorithm.
#pragma once
#include "cublas_v2.h"

enum cublasLtMatmulDescAttributes_t {
    CUBLASLT_MATMUL_DESC_COMPUTE_TYPE = 0, CUBLASLT_MATMUL_DESC_SCALE_TYPE = 1, CUBLASLT_MATMUL_DESC_POINTER_MODE = 2,
    CUBLASLT_MATMUL_DESC_TRANSA = 3, CUBLASLT_MATMUL_DESC_TRANSB = 4, CUBLASLT_MATMUL_DESC_TRANSC = 5,
    CUBLASLT_MATMUL_DESC_EPILOGUE = 7, CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,
    CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 26
};
enum cublasLtMatrixLayoutAttribute_t {
    CUBLASLT_MATRIX_LAYOUT_TYPE = 0, CUBLASLT_MATRIX_LAYOUT_ORDER = 1, CUBLASLT_MATRIX_LAYOUT_ROWS = 2,
    CUBLASLT_MATRIX_LAYOUT_COLS = 3, CUBLASLT_MATRIX_LAYOUT_LD = 4, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,
    CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6
};
enum cublasLtOrder_t { CUBLASLT_ORDER_COL = 0, CUBLASLT_ORDER_ROW = 1 };
enum cublasLtEpilogue_t {
    CUBLASLT_EPILOGUE_DEFAULT = 1, CUBLASLT_EPILOGUE_RELU = 2, CUBLASLT_EPILOGUE_BIAS = 4,
    CUBLASLT_EPILOGUE_RELU_BIAS = 6, CUBLASLT_EPILOGUE_GELU = 32, CUBLASLT_EPILOGUE_GELU_BIAS = 36
};
enum cublasLtMatmulPreferenceAttributes_t {
    CUBLASLT_MATMUL_PREF_SEARCH_MODE = 0, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8
};
struct cublasLtMatmulDescOpaque_t {
    cublasComputeType_t compute;
    cudaDataType scale;
    int32_t left = CUBLAS_OP_N, right = CUBLAS_OP_N, epilogue = CUBLASLT_EPILOGUE_DEFAULT, bias_type = -1;
    const void* bias = nullptr;
    bool unknown = false;  // an attribute was set that the stand-in lacks
};
struct cublasLtMatrixLayoutOpaque_t {
    int32_t type, order = CUBLASLT_ORDER_COL, batches = 1;
    uint64_t rows, columns;
    int64_t leading, stride = 0;
};
struct cublasLtMatmulPreferenceOpaque_t {};
struct cublasLtMatmulAlgo_t {
    uint64_t data[8];
};
struct cublasLtMatmulHeuristicResult_t {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    cublasStatus_t state;
    float wavesCount;
    int reserved[4];
};
typedef cublasContext* cublasLtHandle_t;
typedef cublasLtMatmulDescOpaque_t* cublasLtMatmulDesc_t;
typedef cublasLtMatrixLayoutOpaque_t* cublasLtMatrixLayout_t;
typedef cublasLtMatmulPreferenceOpaque_t* cublasLtMatmulPreference_t;

inline cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) { return cublasCreate(handle); }
inline cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return cublasDestroy(handle); }

inline cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                               cudaDataType scale) {
    return *desc = new cublasLtMatmulDescOpaque_t{.compute = compute, .scale = scale}, CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return delete desc, CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                                     const void* value, size_t) {
    switch (attribute) {
        case CUBLASLT_MATMUL_DESC_TRANSA: memcpy(&desc->left, value, 4); break;
        case CUBLASLT_MATMUL_DESC_TRANSB: memcpy(&desc->right, value, 4); break;
        case CUBLASLT_MATMUL_DESC_EPILOGUE: memcpy(&desc->epilogue, value, 4); break;
        case CUBLASLT_MATMUL_DESC_BIAS_POINTER: memcpy(&desc->bias, value, sizeof(void*)); break;
        case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: memcpy(&desc->bias_type, value, 4); break;
        case CUBLASLT_MATMUL_DESC_POINTER_MODE: break;
        default: desc->unknown = true;
    }
    return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                                 uint64_t columns, int64_t leading) {
    *layout = new cublasLtMatrixLayoutOpaque_t{.type = type, .rows = rows, .columns = columns, .leading = leading};
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    return delete layout, CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                       cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                       size_t) {
    switch (attribute) {
        case CUBLASLT_MATRIX_LAYOUT_TYPE: memcpy(&layout->type, value, 4); break;
        case CUBLASLT_MATRIX_LAYOUT_ORDER: memcpy(&layout->order, value, 4); break;
        case CUBLASLT_MATRIX_LAYOUT_ROWS: memcpy(&layout->rows, value, 8); break;
        case CUBLASLT_MATRIX_LAYOUT_COLS: memcpy(&layout->columns, value, 8); break;
        case CUBLASLT_MATRIX_LAYOUT_LD: memcpy(&layout->leading, value, 8); break;
        case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: memcpy(&layout->batches, value, 4); break;
        case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: memcpy(&layout->stride, value, 8); break;
    }
    return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
    return *preference = new cublasLtMatmulPreferenceOpaque_t, CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    return delete preference, CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                           cublasLtMatmulPreferenceAttributes_t, const void*, size_t) {
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                                     cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                     cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int requested,
                                                     cublasLtMatmulHeuristicResult_t* results, int* returned) {
    *returned = requested > 0 ? 1 : 0;
    if (requested > 0) results[0] = {};
    return CUBLAS_STATUS_SUCCESS;
}

namespace wsim {

inline Matrix matrix_of(const void* data, const cublasLtMatrixLayoutOpaque_t& layout, int batch) {
    Matrix matrix{const_cast<void*>(data), static_cast<cudaDataType>(layout.type), 1, layout.leading};
    if (layout.order == CUBLASLT_ORDER_ROW) matrix = matrix.transposed();
    return matrix.moved(batch * layout.stride);
}
template <class Number>
Number after_epilogue(int epilogue, Number value) {
    if (epilogue & 2) return value > Number{} ? value : Number{};
    if (!(epilogue & 32)) return value;
    double x = static_cast<double>(value);
    return static_cast<Number>(0.5 * x * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))));
}

}  // namespace wsim

inline cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                                     cublasLtMatrixLayout_t al, const void* b, cublasLtMatrixLayout_t bl,
                                     const void* beta, const void* c, cublasLtMatrixLayout_t cl, void* d,
                                     cublasLtMatrixLayout_t dl, const cublasLtMatmulAlgo_t*, void*, size_t,
                                     cudaStream_t) {
    constexpr int known_epilogues = CUBLASLT_EPILOGUE_RELU | CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_GELU | 1;
    if (desc->unknown || desc->epilogue & ~known_epilogues)
        return wsim::blas_unsupported("cublasLtMatmul", "an epilogue or attribute beyond bias, ReLU and GELU");
    for (const auto* layout : {al, bl, cl, dl})
        if (layout->order != CUBLASLT_ORDER_COL && layout->order != CUBLASLT_ORDER_ROW)
            return wsim::blas_unsupported("cublasLtMatmul", "a layout other than rows or columns");
    int k = static_cast<int>(desc->left == CUBLAS_OP_N ? al->columns : al->rows);
    wsim::Product p{"cublasLtMatmul", static_cast<cublasOperation_t>(desc->left),
                    static_cast<cublasOperation_t>(desc->right), static_cast<int>(dl->rows),
                    static_cast<int>(dl->columns), k, alpha, beta, desc->scale};
    if (!wsim::known_type(desc->scale) || !wsim::known_type(static_cast<cudaDataType>(al->type)) ||
        !wsim::known_type(static_cast<cudaDataType>(bl->type)) || !wsim::known_type(static_cast<cudaDataType>(dl->type)))
        return wsim::blas_unsupported("cublasLtMatmul", "this combination of types");
    cudaDataType bias_type = static_cast<cudaDataType>(desc->bias_type < 0 ? dl->type : desc->bias_type);
    wsim::Matrix bias{const_cast<void*>(desc->epilogue & CUBLASLT_EPILOGUE_BIAS ? desc->bias : nullptr), bias_type, 1, 0};
    for (int i = 0; i < dl->batches; ++i) {
        auto after = [&](int row, auto value) {
            using Number = decltype(value);
            if (bias.data) value += wsim::scalar<Number>(bias.moved(row).data, bias.type);
            return wsim::after_epilogue(desc->epilogue, value);
        };
        wsim::run_product(p, wsim::matrix_of(a, *al, i), wsim::matrix_of(b, *bl, i), wsim::matrix_of(c, *cl, i),
                          wsim::matrix_of(d, *dl, i), after);
    }
    return CUBLAS_STATUS_SUCCESS;
}
