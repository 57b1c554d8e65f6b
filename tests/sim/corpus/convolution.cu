// Convolution through cuDNN.
#include <cuda_runtime.h>
#include <cudnn.h>

extern "C" void dnn_conv2d_launcher(const float* x, const float* w, float* y, int batch, int in, int out, int height,
                                    int width, int taps, int stride, int groups, cudaStream_t stream) {
    cudnnHandle_t handle;
    cudnnTensorDescriptor_t from, to;
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t convolution;
    const cudnnConvolutionFwdAlgo_t algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
    const float one = 1.0f, zero = 0.0f;
    int n, c, h, v;
    size_t bytes = 0;
    void* workspace = nullptr;
    cudnnCreate(&handle);
    cudnnSetStream(handle, stream);
    cudnnCreateTensorDescriptor(&from);
    cudnnCreateTensorDescriptor(&to);
    cudnnCreateFilterDescriptor(&filter);
    cudnnCreateConvolutionDescriptor(&convolution);
    cudnnSetTensor4dDescriptor(from, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, batch, in, height, width);
    cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, out, in / groups, taps, taps);
    cudnnSetConvolution2dDescriptor(convolution, taps / 2, taps / 2, stride, stride, 1, 1, CUDNN_CROSS_CORRELATION,
                                    CUDNN_DATA_FLOAT);
    cudnnSetConvolutionGroupCount(convolution, groups);
    cudnnSetConvolutionMathType(convolution, CUDNN_FMA_MATH);
    cudnnGetConvolution2dForwardOutputDim(convolution, from, filter, &n, &c, &h, &v);
    cudnnSetTensor4dDescriptor(to, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, c, h, v);
    cudnnGetConvolutionForwardWorkspaceSize(handle, from, filter, convolution, to, algorithm, &bytes);
    if (bytes > 0) cudaMalloc(&workspace, bytes);
    cudnnConvolutionForward(handle, &one, from, x, filter, w, convolution, algorithm, workspace, bytes, &zero, to, y);
    cudaStreamSynchronize(stream);
    if (workspace != nullptr) cudaFree(workspace);
    cudnnDestroyConvolutionDescriptor(convolution);
    cudnnDestroyFilterDescriptor(filter);
    cudnnDestroyTensorDescriptor(to);
    cudnnDestroyTensorDescriptor(from);
    cudnnDestroy(handle);
}
