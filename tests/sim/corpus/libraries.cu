// Products through cuBLAS and cublasLt.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

cublasHandle_t handle_on(cudaStream_t stream) {
    static cublasHandle_t handle = nullptr;
    if (handle == nullptr) cublasCreate(&handle);
    cublasSetStream(handle, stream);
    cublasSetMathMode(handle, CUBLAS_DEFAULT_MATH);
    return handle;
}

}  // namespace

// Row-major c = a · bᵀ, with a of m × k and b of n × k.
extern "C" void blas_sgemm_launcher(const float* a, const float* b, float* c, int m, int n, int k, cudaStream_t stream) {
    const float one = 1.0f, zero = 0.0f;
    cublasSgemm(handle_on(stream), CUBLAS_OP_T, CUBLAS_OP_N, n, m, k, &one, b, k, a, k, &zero, c, n);
}
// Row-major c = 2 · a · b + c.
extern "C" void blas_gemm_half_launcher(const __half* a, const __half* b, float* c, int m, int n, int k,
                                        cudaStream_t stream) {
    const float two = 2.0f, one = 1.0f;
    cublasGemmEx(handle_on(stream), CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &two, b, CUDA_R_16F, n, a, CUDA_R_16F, k, &one, c,
                 CUDA_R_32F, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}
extern "C" void blas_batched_launcher(const float* a, const float* b, float* c, int batch, int m, int n, int k,
                                      cudaStream_t stream) {
    const float one = 1.0f, zero = 0.0f;
    cublasSgemmStridedBatched(handle_on(stream), CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one, b, n,
                              static_cast<long long>(k) * n, a, k, static_cast<long long>(m) * k, &zero, c, n,
                              static_cast<long long>(m) * n, batch);
}
extern "C" void blas_gemv_launcher(const float* a, const float* x, float* y, int rows, int width, cudaStream_t stream) {
    const float one = 1.0f, zero = 0.0f;
    cublasSgemv(handle_on(stream), CUBLAS_OP_T, width, rows, &one, a, width, x, 1, &zero, y, 1);
}
// Row-major y = relu(x · wᵀ + bias), with x of m × k and w of n × k.
extern "C" void blas_linear_relu_launcher(const float* x, const float* w, const float* bias, float* y, int m, int n, int k,
                                          cudaStream_t stream) {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t left, right, out;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t choice;
    int found = 0;
    const cublasOperation_t transposed = CUBLAS_OP_T;
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_RELU_BIAS;
    const float one = 1.0f, zero = 0.0f;
    cublasLtCreate(&handle);
    cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed));
    cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue));
    cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias));
    cublasLtMatrixLayoutCreate(&left, CUDA_R_32F, k, n, k);
    cublasLtMatrixLayoutCreate(&right, CUDA_R_32F, k, m, k);
    cublasLtMatrixLayoutCreate(&out, CUDA_R_32F, n, m, n);
    cublasLtMatmulPreferenceCreate(&preference);
    cublasLtMatmulAlgoGetHeuristic(handle, product, left, right, out, out, preference, 1, &choice, &found);
    if (found > 0)
        cublasLtMatmul(handle, product, &one, w, left, x, right, &zero, y, out, y, out, &choice.algo, nullptr, 0, stream);
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatrixLayoutDestroy(left);
    cublasLtMatrixLayoutDestroy(right);
    cublasLtMatrixLayoutDestroy(out);
    cublasLtMatmulDescDestroy(product);
    cublasLtDestroy(handle);
}
