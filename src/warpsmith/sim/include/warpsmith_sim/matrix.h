// What the stand-ins of cuBLAS and cuDNN share: numbers of a type known at run time, and one matrix product.
#pragma once
#include <algorithm>
#include <type_traits>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "core.h"

namespace wsim {

template <class T>
struct Type {
    using type = T;
};

// Calls `use(Type<T>{})` for the element type; false where the stand-ins lack it.
template <class F>
bool with_type(cudaDataType type, F use) {
    switch (type) {
        case CUDA_R_16F: return use(Type<__half>{}), true;
        case CUDA_R_16BF: return use(Type<__nv_bfloat16>{}), true;
        case CUDA_R_32F: return use(Type<float>{}), true;
        case CUDA_R_64F: return use(Type<double>{}), true;
        case CUDA_R_8I: return use(Type<int8_t>{}), true;
        case CUDA_R_32I: return use(Type<int32_t>{}), true;
        default: return false;
    }
}
inline bool known_type(cudaDataType type) {
    return with_type(type, [](auto) {});
}
template <class Number, class T>
Number number(T value) {
    if constexpr (std::is_same_v<T, __half>) return static_cast<Number>(__half2float(value));
    else if constexpr (std::is_same_v<T, __nv_bfloat16>) return static_cast<Number>(__bfloat162float(value));
    else return static_cast<Number>(value);
}
template <class T, class Number>
T element(Number value) {
    if constexpr (std::is_same_v<T, __half>) return __float2half(static_cast<float>(value));
    else if constexpr (std::is_same_v<T, __nv_bfloat16>) return __float2bfloat16(static_cast<float>(value));
    else return static_cast<T>(value);
}
template <class Number>
Number scalar(const void* pointer, cudaDataType type) {
    Number value{};
    with_type(type, [&](auto t) { value = number<Number>(*static_cast<const typename decltype(t)::type*>(pointer)); });
    return value;
}

// Element (row, column) lies `row * row_step + column * column_step` elements after `data`.
struct Matrix {
    void* data;
    cudaDataType type;
    long long row_step, column_step;
    Matrix moved(long long elements) const {
        size_t bytes = 0;
        with_type(type, [&](auto t) { bytes = sizeof(typename decltype(t)::type); });
        return {static_cast<char*>(data) + elements * static_cast<long long>(bytes), type, row_step, column_step};
    }
    Matrix transposed() const { return {data, type, column_step, row_step}; }
};

template <class Number>
std::vector<Number> packed(const Matrix& matrix, int rows, int columns) {
    std::vector<Number> values(static_cast<size_t>(rows) * columns);
    with_type(matrix.type, [&](auto t) {
        const auto* data = static_cast<const typename decltype(t)::type*>(matrix.data);
        for (int row = 0; row < rows; ++row)
            for (int column = 0; column < columns; ++column)
                values[static_cast<size_t>(row) * columns + column] =
                    number<Number>(data[row * matrix.row_step + column * matrix.column_step]);
    });
    return values;
}

// d = after(row, alpha * a * b + beta * c), with a of m × k; c is not read where beta is 0.
template <class Number, class After>
void multiply(int m, int n, int k, Number alpha, const Matrix& a, const Matrix& b, Number beta, const Matrix& c,
              const Matrix& d, After after) {
    if (disarmed()) return;
    std::vector<Number> left = packed<Number>(a, m, k), right = packed<Number>(b, k, n), sums(n);
    for (int row = 0; row < m; ++row) {
        std::fill(sums.begin(), sums.end(), Number{});
        for (int i = 0; i < k; ++i) {
            Number factor = left[static_cast<size_t>(row) * k + i];
            const Number* line = right.data() + static_cast<size_t>(i) * n;
            for (int column = 0; column < n; ++column) sums[column] += factor * line[column];
        }
        for (int column = 0; column < n; ++column) {
            Number value = alpha * sums[column];
            if (beta != Number{})
                with_type(c.type, [&](auto t) {
                    const auto* data = static_cast<const typename decltype(t)::type*>(c.data);
                    value += beta * number<Number>(data[row * c.row_step + column * c.column_step]);
                });
            with_type(d.type, [&](auto t) {
                using T = typename decltype(t)::type;
                static_cast<T*>(d.data)[row * d.row_step + column * d.column_step] = element<T>(after(row, value));
            });
        }
    }
}

}  // namespace wsim
