// A stand-in for cuDNN: convolution in two and three dimensions, forward and of its data's gradient, bias and
// activation, as CPU loops.
#pragma once
#include "warpsmith_sim.h"

#include "warpsmith_sim/matrix.h"

#define CUDNN_MAJOR 9
#define CUDNN_MINOR 0
#define CUDNN_PATCHLEVEL 0
#define CUDNN_VERSION 90000

enum cudnnStatus_t {
    CUDNN_STATUS_SUCCESS = 0, CUDNN_STATUS_NOT_INITIALIZED = 1001, CUDNN_STATUS_BAD_PARAM = 2000,
    CUDNN_STATUS_NOT_SUPPORTED = 3000, CUDNN_STATUS_INTERNAL_ERROR = 4000, CUDNN_STATUS_EXECUTION_FAILED = 5000
};
enum cudnnDataType_t {
    CUDNN_DATA_FLOAT = 0, CUDNN_DATA_DOUBLE = 1, CUDNN_DATA_HALF = 2, CUDNN_DATA_INT8 = 3, CUDNN_DATA_INT32 = 4,
    CUDNN_DATA_BFLOAT16 = 9
};
enum cudnnTensorFormat_t { CUDNN_TENSOR_NCHW = 0, CUDNN_TENSOR_NHWC = 1 };
enum cudnnConvolutionMode_t { CUDNN_CONVOLUTION = 0, CUDNN_CROSS_CORRELATION = 1 };
enum cudnnMathType_t {
    CUDNN_DEFAULT_MATH = 0, CUDNN_TENSOR_OP_MATH = 1, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION = 2, CUDNN_FMA_MATH = 3
};
enum cudnnNanPropagation_t { CUDNN_NOT_PROPAGATE_NAN = 0, CUDNN_PROPAGATE_NAN = 1 };
enum cudnnDeterminism_t { CUDNN_NON_DETERMINISTIC = 0, CUDNN_DETERMINISTIC = 1 };
enum cudnnActivationMode_t {
    CUDNN_ACTIVATION_SIGMOID = 0, CUDNN_ACTIVATION_RELU = 1, CUDNN_ACTIVATION_TANH = 2,
    CUDNN_ACTIVATION_CLIPPED_RELU = 3, CUDNN_ACTIVATION_ELU = 4, CUDNN_ACTIVATION_IDENTITY = 5
};
enum cudnnConvolutionFwdAlgo_t {
    CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM = 0, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM = 1,
    CUDNN_CONVOLUTION_FWD_ALGO_GEMM = 2, CUDNN_CONVOLUTION_FWD_ALGO_DIRECT = 3, CUDNN_CONVOLUTION_FWD_ALGO_FFT = 4,
    CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING = 5, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD = 6,
    CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED = 7, CUDNN_CONVOLUTION_FWD_ALGO_COUNT = 8
};
enum cudnnConvolutionBwdDataAlgo_t {
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 = 0, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 = 1,
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT = 2, CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING = 3,
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD = 4, CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED = 5,
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT = 6
};
struct cudnnConvolutionFwdAlgoPerf_t {
    cudnnConvolutionFwdAlgo_t algo;
    cudnnStatus_t status;
    float time;
    size_t memory;
    cudnnDeterminism_t determinism;
    cudnnMathType_t mathType;
    int reserved[3];
};
struct cudnnConvolutionBwdDataAlgoPerf_t {
    cudnnConvolutionBwdDataAlgo_t algo;
    cudnnStatus_t status;
    float time;
    size_t memory;
    cudnnDeterminism_t determinism;
    cudnnMathType_t mathType;
    int reserved[3];
};
struct cudnnContext {
    cudaStream_t stream = nullptr;
};
// `size` and `step` in the order n, c, h, w; for filters k, c, h, w. `depth` comes between c and h where there are
// five axes.
struct cudnnTensorStruct {
    cudaDataType type = CUDA_R_32F;
    int size[4] = {};
    long long step[4] = {};
    int depth = 1;
    long long depth_step = 0;
    size_t elements() const { return static_cast<size_t>(size[0]) * size[1] * depth * size[2] * size[3]; }
};
// `pad`, `stride` and `dilation` along h, w and depth.
struct cudnnConvolutionStruct {
    int pad[3] = {}, stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, groups = 1;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
};
struct cudnnActivationStruct {
    cudnnActivationMode_t mode = CUDNN_ACTIVATION_IDENTITY;
    double coefficient = 0;
};
typedef cudnnContext* cudnnHandle_t;
typedef cudnnTensorStruct *cudnnTensorDescriptor_t, *cudnnFilterDescriptor_t;
typedef cudnnConvolutionStruct* cudnnConvolutionDescriptor_t;
typedef cudnnActivationStruct* cudnnActivationDescriptor_t;

inline cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) { return *handle = new cudnnContext, CUDNN_STATUS_SUCCESS; }
inline cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return delete handle, CUDNN_STATUS_SUCCESS; }
inline cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t s) { return handle->stream = s, CUDNN_STATUS_SUCCESS; }
inline size_t cudnnGetVersion() { return CUDNN_VERSION; }
inline const char* cudnnGetErrorString(cudnnStatus_t status) {
    return status == CUDNN_STATUS_SUCCESS         ? "CUDNN_STATUS_SUCCESS"
           : status == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
                                                  : "CUDNN_STATUS_BAD_PARAM";
}

namespace wsim {

inline cudnnStatus_t dnn_unsupported(const char* name, const char* what) {
    api_error(cudaErrorNotSupported, "%s: %s cannot run on the simulator", name, what);
    return CUDNN_STATUS_NOT_SUPPORTED;
}
inline cudaDataType data_type(cudnnDataType_t type) {
    switch (type) {
        case CUDNN_DATA_FLOAT: return CUDA_R_32F;
        case CUDNN_DATA_DOUBLE: return CUDA_R_64F;
        case CUDNN_DATA_HALF: return CUDA_R_16F;
        case CUDNN_DATA_BFLOAT16: return CUDA_R_16BF;
        default: return CUDA_C_64F;
    }
}
inline cudnnStatus_t describe(cudnnTensorStruct* d, cudnnDataType_t type, const int (&size)[4], const long long (&step)[4]) {
    d->type = data_type(type);
    if (!known_type(d->type)) return dnn_unsupported("a cuDNN descriptor", "this data type");
    for (int i = 0; i < 4; ++i) {
        if (size[i] < 1) return CUDNN_STATUS_BAD_PARAM;
        d->size[i] = size[i];
        d->step[i] = step[i];
    }
    d->depth = 1;
    d->depth_step = 0;
    return CUDNN_STATUS_SUCCESS;
}
// Five axes in the order n, c, depth, h, w.
inline cudnnStatus_t describe_deep(cudnnTensorStruct* d, cudnnDataType_t type, const int size[], const long long step[]) {
    if (size[2] < 1) return CUDNN_STATUS_BAD_PARAM;
    cudnnStatus_t status = describe(d, type, {size[0], size[1], size[3], size[4]}, {step[0], step[1], step[3], step[4]});
    d->depth = size[2];
    d->depth_step = step[2];
    return status;
}
inline cudnnStatus_t describe_packed(cudnnTensorStruct* d, cudnnTensorFormat_t format, cudnnDataType_t type, int n, int c,
                                     int h, int w) {
    long long C = c, H = h, W = w;
    if (format == CUDNN_TENSOR_NHWC) return describe(d, type, {n, c, h, w}, {C * H * W, 1, W * C, C});
    return describe(d, type, {n, c, h, w}, {C * H * W, H * W, W, 1});
}
// Extent along h, w or depth.
inline int extent(const cudnnTensorStruct& d, int axis) { return axis == 2 ? d.depth : d.size[2 + axis]; }
inline int output_size(const cudnnConvolutionStruct& conv, const cudnnTensorStruct& x, const cudnnTensorStruct& w, int axis) {
    int reach = conv.dilation[axis] * (extent(w, axis) - 1) + 1;
    return (extent(x, axis) + 2 * conv.pad[axis] - reach) / conv.stride[axis] + 1;
}
inline double activated(const cudnnActivationStruct& activation, double value) {
    switch (activation.mode) {
        case CUDNN_ACTIVATION_SIGMOID: return 1.0 / (1.0 + exp(-value));
        case CUDNN_ACTIVATION_RELU: return value > 0 ? value : 0;
        case CUDNN_ACTIVATION_TANH: return tanh(value);
        case CUDNN_ACTIVATION_CLIPPED_RELU: return value < 0 ? 0 : value > activation.coefficient ? activation.coefficient : value;
        case CUDNN_ACTIVATION_ELU: return value > 0 ? value : activation.coefficient * expm1(value);
        case CUDNN_ACTIVATION_IDENTITY: return value;
    }
    return value;
}

}  // namespace wsim

#include "warpsmith_sim/convolution.h"

#define WSIM_DESCRIPTOR(NAME, TYPE)                                                                                  \
    inline cudnnStatus_t cudnnCreate##NAME##Descriptor(TYPE* d) {                                                    \
        return *d = new std::remove_pointer_t<TYPE>, CUDNN_STATUS_SUCCESS;                                           \
    }                                                                                                                \
    inline cudnnStatus_t cudnnDestroy##NAME##Descriptor(TYPE d) { return delete d, CUDNN_STATUS_SUCCESS; }
// The names written out are those that `warpsmith.sim.unsupported` knows.
WSIM_DESCRIPTOR(Tensor, cudnnTensorDescriptor_t)            // cudnnCreateTensorDescriptor cudnnDestroyTensorDescriptor
WSIM_DESCRIPTOR(Filter, cudnnFilterDescriptor_t)            // cudnnCreateFilterDescriptor cudnnDestroyFilterDescriptor
WSIM_DESCRIPTOR(Convolution, cudnnConvolutionDescriptor_t)  // cudnnCreateConvolutionDescriptor cudnnDestroyConvolutionDescriptor
WSIM_DESCRIPTOR(Activation, cudnnActivationDescriptor_t)    // cudnnCreateActivationDescriptor cudnnDestroyActivationDescriptor
#undef WSIM_DESCRIPTOR

inline cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t d, cudnnTensorFormat_t format,
                                                cudnnDataType_t type, int n, int c, int h, int w) {
    return wsim::describe_packed(d, format, type, n, c, h, w);
}
inline cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t d, cudnnDataType_t type, int n, int c, int h,
                                                  int w, int sn, int sc, int sh, int sw) {
    return wsim::describe(d, type, {n, c, h, w}, {sn, sc, sh, sw});
}
inline cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t d, cudnnDataType_t type, int axes,
                                                const int size[], const int step[]) {
    if (axes == 5) {
        const long long steps[5] = {step[0], step[1], step[2], step[3], step[4]};
        return wsim::describe_deep(d, type, size, steps);
    }
    if (axes != 4) return wsim::dnn_unsupported("cudnnSetTensorNdDescriptor", "a tensor without 4 or 5 axes");
    return wsim::describe(d, type, {size[0], size[1], size[2], size[3]}, {step[0], step[1], step[2], step[3]});
}
inline cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t type,
                                                cudnnTensorFormat_t format, int k, int c, int h, int w) {
    return wsim::describe_packed(d, format, type, k, c, h, w);
}
inline cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t type,
                                                cudnnTensorFormat_t format, int axes, const int size[]) {
    if (axes == 5 && format == CUDNN_TENSOR_NCHW) {
        long long steps[5] = {0, 0, 0, 0, 1};
        for (int i = 3; i >= 0; --i) steps[i] = steps[i + 1] * size[i + 1];
        return wsim::describe_deep(d, type, size, steps);
    }
    if (axes != 4) return wsim::dnn_unsupported("cudnnSetFilterNdDescriptor", "a filter without 4 or 5 axes");
    return wsim::describe_packed(d, format, type, size[0], size[1], size[2], size[3]);
}
inline cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t d, int pad_h, int pad_w, int stride_h,
                                                     int stride_w, int dilation_h, int dilation_w,
                                                     cudnnConvolutionMode_t mode, cudnnDataType_t) {
    *d = {{pad_h, pad_w, 0}, {stride_h, stride_w, 1}, {dilation_h, dilation_w, 1}, d->groups, mode};
    return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t d, int axes, const int pad[],
                                                     const int stride[], const int dilation[],
                                                     cudnnConvolutionMode_t mode, cudnnDataType_t type) {
    if (axes == 3) {
        *d = {{pad[1], pad[2], pad[0]}, {stride[1], stride[2], stride[0]}, {dilation[1], dilation[2], dilation[0]},
              d->groups, mode};
        return CUDNN_STATUS_SUCCESS;
    }
    if (axes != 2) return wsim::dnn_unsupported("cudnnSetConvolutionNdDescriptor", "a convolution without 2 or 3 axes");
    return cudnnSetConvolution2dDescriptor(d, pad[0], pad[1], stride[0], stride[1], dilation[0], dilation[1], mode, type);
}
inline cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t d, int groups) {
    return groups > 0 ? (d->groups = groups, CUDNN_STATUS_SUCCESS) : CUDNN_STATUS_BAD_PARAM;
}
inline cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t, cudnnMathType_t) {
    return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t d, cudnnActivationMode_t mode,
                                                  cudnnNanPropagation_t, double coefficient) {
    return *d = {mode, coefficient}, CUDNN_STATUS_SUCCESS;
}

inline cudnnStatus_t cudnnGetConvolution2dForwardOutputDim(cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t x,
                                                           cudnnFilterDescriptor_t w, int* n, int* c, int* h, int* v) {
    *n = x->size[0];
    *c = w->size[0];
    *h = wsim::output_size(*conv, *x, *w, 0);
    *v = wsim::output_size(*conv, *x, *w, 1);
    return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t,
                                                             cudnnFilterDescriptor_t, cudnnConvolutionDescriptor_t,
                                                             cudnnTensorDescriptor_t, cudnnConvolutionFwdAlgo_t,
                                                             size_t* bytes) {
    return *bytes = 0, CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t,
                                                            cudnnFilterDescriptor_t, cudnnConvolutionDescriptor_t,
                                                            cudnnTensorDescriptor_t, int requested, int* returned,
                                                            cudnnConvolutionFwdAlgoPerf_t* results) {
    *returned = requested > 0 ? 1 : 0;
    if (requested > 0) results[0] = {.determinism = CUDNN_DETERMINISTIC};
    return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnFindConvolutionForwardAlgorithm(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                          cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t conv,
                                                          cudnnTensorDescriptor_t y, int requested, int* returned,
                                                          cudnnConvolutionFwdAlgoPerf_t* results) {
    return cudnnGetConvolutionForwardAlgorithm_v7(handle, x, w, conv, y, requested, returned, results);
}

inline cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t, const void* alpha, cudnnTensorDescriptor_t x, const void* xs,
                                             cudnnFilterDescriptor_t w, const void* ws,
                                             cudnnConvolutionDescriptor_t conv, cudnnConvolutionFwdAlgo_t, void*, size_t,
                                             const void* beta, cudnnTensorDescriptor_t y, void* ys) {
    double a = wsim::factor(alpha, x->type), b = wsim::factor(beta, x->type);
    return wsim::convolve("cudnnConvolutionForward", *x, xs, *w, ws, *conv, *y, [=](int, long long place, double sum) {
        wsim::put(*y, ys, place, a * sum + (b != 0 ? b * wsim::at<double>(*y, ys, place) : 0.0));
    });
}
inline cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t, cudnnFilterDescriptor_t,
                                                                 cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t,
                                                                 cudnnTensorDescriptor_t, int requested, int* returned,
                                                                 cudnnConvolutionBwdDataAlgoPerf_t* results) {
    *returned = requested > 0 ? 1 : 0;
    if (requested > 0) results[0] = {.determinism = CUDNN_DETERMINISTIC};
    return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t, const void* alpha, cudnnFilterDescriptor_t w,
                                                  const void* ws, cudnnTensorDescriptor_t y, const void* ys,
                                                  cudnnConvolutionDescriptor_t conv, cudnnConvolutionBwdDataAlgo_t,
                                                  void*, size_t, const void* beta, cudnnTensorDescriptor_t x, void* xs) {
    return wsim::spread_back("cudnnConvolutionBackwardData", *w, ws, *y, ys, *conv, wsim::factor(alpha, y->type),
                             wsim::factor(beta, y->type), *x, xs);
}
inline cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t, const void* alpha1, cudnnTensorDescriptor_t x, const void* xs, cudnnFilterDescriptor_t w,
    const void* ws, cudnnConvolutionDescriptor_t conv, cudnnConvolutionFwdAlgo_t, void*, size_t, const void* alpha2,
    cudnnTensorDescriptor_t, const void* zs, cudnnTensorDescriptor_t bias, const void* biases,
    cudnnActivationDescriptor_t activation, cudnnTensorDescriptor_t y, void* ys) {
    double a = wsim::factor(alpha1, x->type), z = wsim::factor(alpha2, x->type);
    auto finish = [=](int k, long long place, double sum) {
        double value = a * sum + wsim::at<double>(*bias, biases, k * bias->step[1]);
        if (z != 0) value += z * wsim::at<double>(*y, zs, place);
        wsim::put(*y, ys, place, wsim::activated(*activation, value));
    };
    return wsim::convolve("cudnnConvolutionBiasActivationForward", *x, xs, *w, ws, *conv, *y, finish);
}
// c = alpha * a + beta * c, where a has size 1 along each axis that it is repeated on.
inline cudnnStatus_t cudnnAddTensor(cudnnHandle_t, const void* alpha, cudnnTensorDescriptor_t a, const void* as,
                                    const void* beta, cudnnTensorDescriptor_t c, void* cs) {
    if (wsim::disarmed()) return CUDNN_STATUS_SUCCESS;
    double factor_a = wsim::factor(alpha, a->type), factor_c = wsim::factor(beta, a->type);
    wsim::each(*c, [&](int n, int k, int h, int w, long long place) {
        const int index[4] = {n, k, h, w};
        long long from = 0;
        for (int i = 0; i < 4; ++i) from += (a->size[i] == 1 ? 0 : index[i]) * a->step[i];
        double old = factor_c != 0 ? factor_c * wsim::at<double>(*c, cs, place) : 0.0;
        wsim::put(*c, cs, place, factor_a * wsim::at<double>(*a, as, from) + old);
    });
    return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnActivationForward(cudnnHandle_t, cudnnActivationDescriptor_t activation, const void* alpha,
                                            cudnnTensorDescriptor_t x, const void* xs, const void* beta,
                                            cudnnTensorDescriptor_t y, void* ys) {
    if (wsim::disarmed()) return CUDNN_STATUS_SUCCESS;
    double a = wsim::factor(alpha, x->type), b = wsim::factor(beta, x->type);
    wsim::each(*y, [&](int n, int c, int h, int w, long long place) {
        long long from = n * x->step[0] + c * x->step[1] + h * x->step[2] + w * x->step[3];
        double old = b != 0 ? b * wsim::at<double>(*y, ys, place) : 0.0;
        wsim::put(*y, ys, place, a * wsim::activated(*activation, wsim::at<double>(*x, xs, from)) + old);
    });
    return CUDNN_STATUS_SUCCESS;
}
