// The loops of the cuDNN stand-in, on its descriptors.
#pragma once

namespace wsim {

template <class Number>
Number at(const cudnnTensorStruct& d, const void* data, long long offset) {
    return scalar<Number>(Matrix{const_cast<void*>(data), d.type, 1, 1}.moved(offset).data, d.type);
}
inline void put(const cudnnTensorStruct& d, void* data, long long offset, double value) {
    with_type(d.type, [&](auto t) {
        using T = typename decltype(t)::type;
        static_cast<T*>(data)[offset] = element<T>(value);
    });
}
// The numbers of alpha and beta: double for double tensors, else float.
inline double factor(const void* pointer, cudaDataType type) {
    return type == CUDA_R_64F ? *static_cast<const double*>(pointer) : *static_cast<const float*>(pointer);
}
// Calls `use(offset of x, offset of w)` for each pair that output (n, k, z, p, q) sums.
template <class Use>
void taps(const cudnnConvolutionStruct& conv, const cudnnTensorStruct& x, const cudnnTensorStruct& w, int n, int k, int z,
          int p, int q, Use use) {
    int first = k / (w.size[0] / conv.groups) * w.size[1];
    bool flip = conv.mode == CUDNN_CONVOLUTION;
    for (int c = 0; c < w.size[1]; ++c)
        for (int t = 0; t < w.depth; ++t)
            for (int r = 0; r < w.size[2]; ++r)
                for (int s = 0; s < w.size[3]; ++s) {
                    int d = z * conv.stride[2] - conv.pad[2] + t * conv.dilation[2];
                    int h = p * conv.stride[0] - conv.pad[0] + r * conv.dilation[0];
                    int v = q * conv.stride[1] - conv.pad[1] + s * conv.dilation[1];
                    if (d < 0 || d >= x.depth || h < 0 || h >= x.size[2] || v < 0 || v >= x.size[3]) continue;
                    int slice = flip ? w.depth - 1 - t : t;
                    int row = flip ? w.size[2] - 1 - r : r;
                    int column = flip ? w.size[3] - 1 - s : s;
                    use(n * x.step[0] + (first + c) * x.step[1] + d * x.depth_step + h * x.step[2] + v * x.step[3],
                        k * w.step[0] + c * w.step[1] + slice * w.depth_step + row * w.step[2] + column * w.step[3]);
                }
}
// Calls `use(n, c, z, h, w, offset)` for each place of a tensor.
template <class Use>
void each_deep(const cudnnTensorStruct& d, Use use) {
    for (int n = 0; n < d.size[0]; ++n)
        for (int c = 0; c < d.size[1]; ++c)
            for (int z = 0; z < d.depth; ++z)
                for (int h = 0; h < d.size[2]; ++h)
                    for (int w = 0; w < d.size[3]; ++w)
                        use(n, c, z, h, w,
                            n * d.step[0] + c * d.step[1] + z * d.depth_step + h * d.step[2] + w * d.step[3]);
}
// Calls `use(n, c, h, w)` for each place of a tensor.
template <class Use>
void each(const cudnnTensorStruct& d, Use use) {
    for (int n = 0; n < d.size[0]; ++n)
        for (int c = 0; c < d.size[1]; ++c)
            for (int h = 0; h < d.size[2]; ++h)
                for (int w = 0; w < d.size[3]; ++w)
                    use(n, c, h, w, n * d.step[0] + c * d.step[1] + h * d.step[2] + w * d.step[3]);
}
inline bool fits(const cudnnTensorStruct& x, const cudnnTensorStruct& w, const cudnnConvolutionStruct& conv,
                 const cudnnTensorStruct& y) {
    for (int axis = 0; axis < 3; ++axis)
        if (extent(y, axis) != output_size(conv, x, w, axis)) return false;
    return x.size[1] == w.size[1] * conv.groups && w.size[0] % conv.groups == 0 && y.size[0] == x.size[0] &&
           y.size[1] == w.size[0];
}
template <class Finish>
cudnnStatus_t convolve(const char* name, const cudnnTensorStruct& x, const void* xs, const cudnnTensorStruct& w,
                       const void* ws, const cudnnConvolutionStruct& conv, const cudnnTensorStruct& y, Finish finish) {
    if (!fits(x, w, conv, y)) return CUDNN_STATUS_BAD_PARAM;
    if (x.type != w.type) return dnn_unsupported(name, "input and filter of different types");
    if (disarmed()) return CUDNN_STATUS_SUCCESS;
    with_type(x.type, [&](auto t) {
        using T = typename decltype(t)::type;
        using Number = std::conditional_t<std::is_same_v<T, double>, double, float>;
        const T *input = static_cast<const T*>(xs), *filter = static_cast<const T*>(ws);
        each_deep(y, [&](int n, int k, int z, int p, int q, long long place) {
            Number sum = 0;
            taps(conv, x, w, n, k, z, p, q,
                 [&](long long i, long long j) { sum += number<Number>(input[i]) * number<Number>(filter[j]); });
            finish(k, place, static_cast<double>(sum));
        });
    });
    return CUDNN_STATUS_SUCCESS;
}
// Adds to `xs` what each place of `ys` was made from: the gradient of the convolution's data.
inline cudnnStatus_t spread_back(const char* name, const cudnnTensorStruct& w, const void* ws, const cudnnTensorStruct& y,
                                 const void* ys, const cudnnConvolutionStruct& conv, double alpha, double beta,
                                 const cudnnTensorStruct& x, void* xs) {
    if (!fits(x, w, conv, y)) return CUDNN_STATUS_BAD_PARAM;
    if (y.type != w.type) return dnn_unsupported(name, "gradient and filter of different types");
    with_type(y.type, [&](auto t) {
        using T = typename decltype(t)::type;
        using Number = std::conditional_t<std::is_same_v<T, double>, double, float>;
        const T *gradient = static_cast<const T*>(ys), *filter = static_cast<const T*>(ws);
        long long reach = (x.depth - 1) * x.depth_step;
        for (int i = 0; i < 4; ++i) reach += (x.size[i] - 1) * x.step[i];
        std::vector<Number> sums(static_cast<size_t>(reach) + 1);
        each_deep(y, [&](int n, int k, int z, int p, int q, long long place) {
            Number value = number<Number>(gradient[place]);
            taps(conv, x, w, n, k, z, p, q,
                 [&](long long i, long long j) { sums[static_cast<size_t>(i)] += value * number<Number>(filter[j]); });
        });
        each_deep(x, [&](int, int, int, int, int, long long place) {
            double old = beta != 0 ? beta * at<double>(x, xs, place) : 0.0;
            put(x, xs, place, alpha * static_cast<double>(sums[static_cast<size_t>(place)]) + old);
        });
    });
    return CUDNN_STATUS_SUCCESS;
}

}  // namespace wsim
