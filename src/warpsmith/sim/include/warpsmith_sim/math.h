// Device math that the C library lacks, and CUDA's fast variants (computed exactly: `sim` judges correctness only).
#pragma once
#include <math.h>

#include <type_traits>

template <class A, class B>
    requires(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>)
constexpr std::common_type_t<A, B> max(A a, B b) {
    using C = std::common_type_t<A, B>;
    return static_cast<C>(a) < static_cast<C>(b) || static_cast<C>(a) != static_cast<C>(a) ? static_cast<C>(b)
                                                                                           : static_cast<C>(a);
}
template <class A, class B>
    requires(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>)
constexpr std::common_type_t<A, B> min(A a, B b) {
    using C = std::common_type_t<A, B>;
    return static_cast<C>(b) < static_cast<C>(a) || static_cast<C>(a) != static_cast<C>(a) ? static_cast<C>(b)
                                                                                           : static_cast<C>(a);
}

#define WSIM_UNARY(name, expression) \
    inline float name(float x) { return expression; }
WSIM_UNARY(__expf, expf(x))
WSIM_UNARY(__exp10f, powf(10.0f, x))
WSIM_UNARY(__logf, logf(x))
WSIM_UNARY(__log2f, log2f(x))
WSIM_UNARY(__log10f, log10f(x))
WSIM_UNARY(__sinf, sinf(x))
WSIM_UNARY(__cosf, cosf(x))
WSIM_UNARY(__tanf, tanf(x))
WSIM_UNARY(__tanhf, tanhf(x))
WSIM_UNARY(__saturatef, x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f)
WSIM_UNARY(rsqrtf, 1.0f / sqrtf(x))
WSIM_UNARY(rcbrtf, 1.0f / cbrtf(x))
WSIM_UNARY(sinpif, static_cast<float>(sin(M_PI * x)))
WSIM_UNARY(cospif, static_cast<float>(cos(M_PI * x)))
WSIM_UNARY(normcdff, static_cast<float>(0.5 * erfc(-x * M_SQRT1_2)))
WSIM_UNARY(erfcxf, static_cast<float>(exp(static_cast<double>(x) * x) * erfc(x)))
WSIM_UNARY(__frsqrt_rn, 1.0f / sqrtf(x))
WSIM_UNARY(__frcp_rn, 1.0f / x)
WSIM_UNARY(__frcp_rz, 1.0f / x)
WSIM_UNARY(__fsqrt_rn, sqrtf(x))
WSIM_UNARY(__fsqrt_rz, sqrtf(x))
#undef WSIM_UNARY

#define WSIM_BINARY(type, name, expression) \
    inline type name(type x, type y) { return expression; }
WSIM_BINARY(float, __powf, powf(x, y))
WSIM_BINARY(float, __fdividef, x / y)
WSIM_BINARY(float, fdividef, x / y)
WSIM_BINARY(float, __fdiv_rn, x / y)
WSIM_BINARY(float, __fdiv_rz, x / y)
WSIM_BINARY(float, __fadd_rn, x + y)
WSIM_BINARY(float, __fadd_rz, x + y)
WSIM_BINARY(float, __fsub_rn, x - y)
WSIM_BINARY(float, __fmul_rn, x * y)
WSIM_BINARY(float, __fmul_rz, x * y)
WSIM_BINARY(float, rhypotf, 1.0f / hypotf(x, y))
WSIM_BINARY(double, __ddiv_rn, x / y)
WSIM_BINARY(double, __dadd_rn, x + y)
WSIM_BINARY(double, __dsub_rn, x - y)
WSIM_BINARY(double, __dmul_rn, x * y)
#undef WSIM_BINARY

inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline double normcdf(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }
inline double sinpi(double x) { return sin(M_PI * x); }
inline double cospi(double x) { return cos(M_PI * x); }
inline double __drcp_rn(double x) { return 1.0 / x; }
inline double __dsqrt_rn(double x) { return sqrt(x); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fmaf_rz(float a, float b, float c) { return fmaf(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline float norm3df(float a, float b, float c) { return sqrtf(a * a + b * b + c * c); }
inline float rnorm3df(float a, float b, float c) { return 1.0f / norm3df(a, b, c); }
inline void __sincosf(float x, float* s, float* c) {
    *s = sinf(x);
    *c = cosf(x);
}
inline void sincospif(float x, float* s, float* c) {
    *s = sinpif(x);
    *c = cospif(x);
}
