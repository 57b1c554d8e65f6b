// A stand-in for cuBLAS: matrix products as CPU loops. Streams, math modes and algorithms change nothing.
#pragma once
#include "warpsmith_sim.h"

#include <library_types.h>

#include "warpsmith_sim/matrix.h"

enum cublasStatus_t {
    CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_NOT_INITIALIZED = 1, CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7, CUBLAS_STATUS_ARCH_MISMATCH = 8, CUBLAS_STATUS_MAPPING_ERROR = 11,
    CUBLAS_STATUS_EXECUTION_FAILED = 13, CUBLAS_STATUS_INTERNAL_ERROR = 14, CUBLAS_STATUS_NOT_SUPPORTED = 15,
    CUBLAS_STATUS_LICENSE_ERROR = 16
};
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2 };
enum cublasPointerMode_t { CUBLAS_POINTER_MODE_HOST = 0, CUBLAS_POINTER_MODE_DEVICE = 1 };
enum cublasAtomicsMode_t { CUBLAS_ATOMICS_NOT_ALLOWED = 0, CUBLAS_ATOMICS_ALLOWED = 1 };
enum cublasMath_t {
    CUBLAS_DEFAULT_MATH = 0, CUBLAS_TENSOR_OP_MATH = 1, CUBLAS_PEDANTIC_MATH = 2, CUBLAS_TF32_TENSOR_OP_MATH = 3,
    CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16
};
enum cublasComputeType_t {
    CUBLAS_COMPUTE_16F = 64, CUBLAS_COMPUTE_16F_PEDANTIC = 65, CUBLAS_COMPUTE_32F = 68,
    CUBLAS_COMPUTE_32F_PEDANTIC = 69, CUBLAS_COMPUTE_64F = 70, CUBLAS_COMPUTE_64F_PEDANTIC = 71,
    CUBLAS_COMPUTE_32I = 72, CUBLAS_COMPUTE_32I_PEDANTIC = 73, CUBLAS_COMPUTE_32F_FAST_16F = 74,
    CUBLAS_COMPUTE_32F_FAST_16BF = 75, CUBLAS_COMPUTE_32F_FAST_TF32 = 77
};
enum cublasGemmAlgo_t {
    CUBLAS_GEMM_DFALT = -1, CUBLAS_GEMM_DEFAULT = -1, CUBLAS_GEMM_ALGO0 = 0, CUBLAS_GEMM_ALGO1 = 1,
    CUBLAS_GEMM_ALGO2 = 2, CUBLAS_GEMM_ALGO3 = 3, CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99,
    CUBLAS_GEMM_DFALT_TENSOR_OP = 99, CUBLAS_GEMM_ALGO0_TENSOR_OP = 100, CUBLAS_GEMM_ALGO1_TENSOR_OP = 101
};
struct cublasContext {
    cudaStream_t stream = nullptr;
    cublasMath_t math = CUBLAS_DEFAULT_MATH;
    cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
};
typedef cublasContext* cublasHandle_t;

inline cublasStatus_t cublasCreate(cublasHandle_t* handle) { return *handle = new cublasContext, CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasDestroy(cublasHandle_t handle) { return delete handle, CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
    return handle->stream = stream, CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t* stream) {
    return *stream = handle->stream, CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
    return handle->math = mode, CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
    return *mode = handle->math, CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode) {
    return handle->pointers = mode, CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasGetPointerMode(cublasHandle_t handle, cublasPointerMode_t* mode) {
    return *mode = handle->pointers, CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasSetAtomicsMode(cublasHandle_t, cublasAtomicsMode_t) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasSetWorkspace(cublasHandle_t, void*, size_t) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasGetVersion(cublasHandle_t, int* version) { return *version = 130000, CUBLAS_STATUS_SUCCESS; }
inline const char* cublasGetStatusString(cublasStatus_t status) {
    return status == CUBLAS_STATUS_SUCCESS         ? "success"
           : status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported on the simulator"
                                                   : "invalid value";
}
inline const char* cublasGetStatusName(cublasStatus_t status) {
    return status == CUBLAS_STATUS_SUCCESS         ? "CUBLAS_STATUS_SUCCESS"
           : status == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                                   : "CUBLAS_STATUS_INVALID_VALUE";
}

namespace wsim {

// The type of alpha and beta, and what sums are kept in; CUDA_C_64F for a compute type that is not known.
inline cudaDataType scale_type(cublasComputeType_t compute) {
    switch (compute) {
        case CUBLAS_COMPUTE_16F: case CUBLAS_COMPUTE_16F_PEDANTIC: return CUDA_R_16F;
        case CUBLAS_COMPUTE_64F: case CUBLAS_COMPUTE_64F_PEDANTIC: return CUDA_R_64F;
        case CUBLAS_COMPUTE_32I: case CUBLAS_COMPUTE_32I_PEDANTIC: return CUDA_R_32I;
        case CUBLAS_COMPUTE_32F: case CUBLAS_COMPUTE_32F_PEDANTIC: case CUBLAS_COMPUTE_32F_FAST_16F:
        case CUBLAS_COMPUTE_32F_FAST_16BF: case CUBLAS_COMPUTE_32F_FAST_TF32: return CUDA_R_32F;
    }
    return CUDA_C_64F;
}
inline cublasStatus_t blas_unsupported(const char* name, const char* what) {
    api_error(cudaErrorNotSupported, "%s: %s cannot run on the simulator", name, what);
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

struct Product {
    const char* name;  // the function that asked
    cublasOperation_t left, right;
    int m, n, k;
    const void *alpha, *beta;
    cudaDataType scale;
};
inline Matrix column_major(const void* data, cudaDataType type, long long leading) {
    return {const_cast<void*>(data), type, 1, leading};
}

inline cublasStatus_t check_product(const Product& p, const Matrix& a, const Matrix& b, const Matrix& c) {
    bool integers = a.type == CUDA_R_8I;
    if (!known_type(a.type) || !known_type(b.type) || !known_type(c.type) || a.type != b.type ||
        a.type == CUDA_R_32I || integers != (p.scale == CUDA_R_32I) || integers != (c.type == CUDA_R_32I) ||
        (a.type == CUDA_R_64F) != (p.scale == CUDA_R_64F))
        return blas_unsupported(p.name, "this combination of types");
    if (p.m < 0 || p.n < 0 || p.k < 0 || a.column_step < (p.left == CUBLAS_OP_N ? p.m : p.k) ||
        b.column_step < (p.right == CUBLAS_OP_N ? p.k : p.n) || c.column_step < p.m)
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

template <class After>
void run_product(const Product& p, const Matrix& a, const Matrix& b, const Matrix& c, const Matrix& d, After after) {
    Matrix left = p.left == CUBLAS_OP_N ? a : a.transposed(), right = p.right == CUBLAS_OP_N ? b : b.transposed();
    auto run = [&](auto zero) {
        using Number = decltype(zero);
        multiply<Number>(p.m, p.n, p.k, scalar<Number>(p.alpha, p.scale), left, right,
                         scalar<Number>(p.beta, p.scale), c, d, after);
    };
    if (p.scale == CUDA_R_64F) run(0.0);
    else if (p.scale == CUDA_R_32I) run(int32_t{0});
    else run(0.0f);
}

// Batches of one matrix each `stride` elements, or of pointers.
inline cublasStatus_t product(const Product& p, Matrix a, Matrix b, Matrix c, int batches = 1, long long stride_a = 0,
                              long long stride_b = 0, long long stride_c = 0) {
    if (cublasStatus_t status = check_product(p, a, b, c)) return status;
    for (int i = 0; i < batches; ++i) {
        Matrix out = c.moved(i * stride_c);
        run_product(p, a.moved(i * stride_a), b.moved(i * stride_b), out, out, [](int, auto value) { return value; });
    }
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t product_of_pointers(const Product& p, const void* const* a, Matrix a_like, const void* const* b,
                                          Matrix b_like, void* const* c, Matrix c_like, int batches) {
    for (int i = 0; i < batches; ++i) {
        a_like.data = const_cast<void*>(a[i]);
        b_like.data = const_cast<void*>(b[i]);
        c_like.data = c[i];
        if (cublasStatus_t status = product(p, a_like, b_like, c_like)) return status;
    }
    return CUBLAS_STATUS_SUCCESS;
}

}  // namespace wsim

#define WSIM_GEMM(LETTER, T, TYPE)                                                                                     \
    inline cublasStatus_t cublas##LETTER##gemm(cublasHandle_t, cublasOperation_t ta, cublasOperation_t tb, int m,      \
                                               int n, int k, const T* alpha, const T* a, int lda, const T* b, int ldb, \
                                               const T* beta, T* c, int ldc) {                                         \
        wsim::Product p{"cublas" #LETTER "gemm", ta, tb, m, n, k, alpha, beta, TYPE};                                  \
        return wsim::product(p, wsim::column_major(a, TYPE, lda), wsim::column_major(b, TYPE, ldb),                    \
                             wsim::column_major(c, TYPE, ldc));                                                        \
    }                                                                                                                  \
    inline cublasStatus_t cublas##LETTER##gemmStridedBatched(                                                          \
        cublasHandle_t, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const T* alpha, const T* a,   \
        int lda, long long sa, const T* b, int ldb, long long sb, const T* beta, T* c, int ldc, long long sc,          \
        int batches) {                                                                                                 \
        wsim::Product p{"cublas" #LETTER "gemmStridedBatched", ta, tb, m, n, k, alpha, beta, TYPE};                    \
        return wsim::product(p, wsim::column_major(a, TYPE, lda), wsim::column_major(b, TYPE, ldb),                    \
                             wsim::column_major(c, TYPE, ldc), batches, sa, sb, sc);                                   \
    }                                                                                                                  \
    inline cublasStatus_t cublas##LETTER##gemmBatched(                                                                 \
        cublasHandle_t, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const T* alpha,               \
        const T* const* a, int lda, const T* const* b, int ldb, const T* beta, T* const* c, int ldc, int batches) {    \
        wsim::Product p{"cublas" #LETTER "gemmBatched", ta, tb, m, n, k, alpha, beta, TYPE};                           \
        return wsim::product_of_pointers(p, reinterpret_cast<const void* const*>(a),                                   \
                                         wsim::column_major(nullptr, TYPE, lda),                                       \
                                         reinterpret_cast<const void* const*>(b),                                      \
                                         wsim::column_major(nullptr, TYPE, ldb), reinterpret_cast<void* const*>(c),    \
                                         wsim::column_major(nullptr, TYPE, ldc), batches);                             \
    }
// The names written out are those that `warpsmith.sim.unsupported` knows.
WSIM_GEMM(S, float, CUDA_R_32F)    // cublasSgemm cublasSgemmStridedBatched cublasSgemmBatched
WSIM_GEMM(D, double, CUDA_R_64F)   // cublasDgemm cublasDgemmStridedBatched cublasDgemmBatched
WSIM_GEMM(H, __half, CUDA_R_16F)   // cublasHgemm cublasHgemmStridedBatched cublasHgemmBatched
#undef WSIM_GEMM

#define WSIM_GEMV(LETTER, T, TYPE)                                                                                     \
    inline cublasStatus_t cublas##LETTER##gemv(cublasHandle_t, cublasOperation_t trans, int m, int n, const T* alpha,  \
                                               const T* a, int lda, const T* x, int incx, const T* beta, T* y,         \
                                               int incy) {                                                             \
        if (incx < 1 || incy < 1) return wsim::blas_unsupported("cublas" #LETTER "gemv", "a negative increment");      \
        wsim::Product p{"cublas" #LETTER "gemv", trans, CUBLAS_OP_N, trans == CUBLAS_OP_N ? m : n, 1,                  \
                        trans == CUBLAS_OP_N ? n : m, alpha, beta, TYPE};                                              \
        wsim::Matrix in{const_cast<T*>(x), TYPE, incx, 1}, out{y, TYPE, incy, 1};                                      \
        wsim::run_product(p, wsim::column_major(a, TYPE, lda), in, out, out, [](int, auto value) { return value; });   \
        return CUBLAS_STATUS_SUCCESS;                                                                                  \
    }
WSIM_GEMV(S, float, CUDA_R_32F)   // cublasSgemv
WSIM_GEMV(D, double, CUDA_R_64F)  // cublasDgemv
#undef WSIM_GEMV

inline cublasStatus_t cublasSgemmEx(cublasHandle_t, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                                    const float* alpha, const void* a, cudaDataType at, int lda, const void* b,
                                    cudaDataType bt, int ldb, const float* beta, void* c, cudaDataType ct, int ldc) {
    wsim::Product p{"cublasSgemmEx", ta, tb, m, n, k, alpha, beta, CUDA_R_32F};
    return wsim::product(p, wsim::column_major(a, at, lda), wsim::column_major(b, bt, ldb),
                         wsim::column_major(c, ct, ldc));
}
inline cublasStatus_t cublasGemmEx(cublasHandle_t, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                                   const void* alpha, const void* a, cudaDataType at, int lda, const void* b,
                                   cudaDataType bt, int ldb, const void* beta, void* c, cudaDataType ct, int ldc,
                                   cublasComputeType_t compute, cublasGemmAlgo_t) {
    wsim::Product p{"cublasGemmEx", ta, tb, m, n, k, alpha, beta, wsim::scale_type(compute)};
    return wsim::product(p, wsim::column_major(a, at, lda), wsim::column_major(b, bt, ldb),
                         wsim::column_major(c, ct, ldc));
}
inline cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t, cublasOperation_t ta, cublasOperation_t tb, int m,
                                                 int n, int k, const void* alpha, const void* a, cudaDataType at,
                                                 int lda, long long sa, const void* b, cudaDataType bt, int ldb,
                                                 long long sb, const void* beta, void* c, cudaDataType ct, int ldc,
                                                 long long sc, int batches, cublasComputeType_t compute,
                                                 cublasGemmAlgo_t) {
    wsim::Product p{"cublasGemmStridedBatchedEx", ta, tb, m, n, k, alpha, beta, wsim::scale_type(compute)};
    return wsim::product(p, wsim::column_major(a, at, lda), wsim::column_major(b, bt, ldb),
                         wsim::column_major(c, ct, ldc), batches, sa, sb, sc);
}
inline cublasStatus_t cublasGemmBatchedEx(cublasHandle_t, cublasOperation_t ta, cublasOperation_t tb, int m, int n,
                                          int k, const void* alpha, const void* const a[], cudaDataType at, int lda,
                                          const void* const b[], cudaDataType bt, int ldb, const void* beta,
                                          void* const c[], cudaDataType ct, int ldc, int batches,
                                          cublasComputeType_t compute, cublasGemmAlgo_t) {
    wsim::Product p{"cublasGemmBatchedEx", ta, tb, m, n, k, alpha, beta, wsim::scale_type(compute)};
    return wsim::product_of_pointers(p, a, wsim::column_major(nullptr, at, lda), b, wsim::column_major(nullptr, bt, ldb),
                                     c, wsim::column_major(nullptr, ct, ldc), batches);
}

#define cublasCreate_v2 cublasCreate
#define cublasDestroy_v2 cublasDestroy
#define cublasSetStream_v2 cublasSetStream
#define cublasGetStream_v2 cublasGetStream
#define cublasSgemm_v2 cublasSgemm
#define cublasDgemm_v2 cublasDgemm
#define cublasSgemv_v2 cublasSgemv
#define cublasDgemv_v2 cublasDgemv
