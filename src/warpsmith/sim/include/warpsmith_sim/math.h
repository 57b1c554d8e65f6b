// Device math that the C library lacks, and CUDA's fast variants (computed exactly: `sim` judges correctness only).
#pragma once
#include <math.h>

#include <cmath>
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
#undef WSIM_UNARY

#define WSIM_BINARY(type, name, expression) \
    inline type name(type x, type y) { return expression; }
WSIM_BINARY(float, __powf, powf(x, y))
WSIM_BINARY(float, __fdividef, x / y)
WSIM_BINARY(float, fdividef, x / y)
WSIM_BINARY(float, rhypotf, 1.0f / hypotf(x, y))
#undef WSIM_BINARY

inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline double normcdf(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }
inline double sinpi(double x) { return sin(M_PI * x); }
inline double cospi(double x) { return cos(M_PI * x); }
inline float norm3df(float a, float b, float c) { return sqrtf(a * a + b * b + c * c); }
inline float rnorm3df(float a, float b, float c) { return 1.0f / norm3df(a, b, c); }
inline float norm4df(float a, float b, float c, float d) { return sqrtf(a * a + b * b + c * c + d * d); }
inline float rnorm4df(float a, float b, float c, float d) { return 1.0f / norm4df(a, b, c, d); }
inline double tanpi(double x) { return tan(M_PI * x); }

// The inverse of erf: a first guess (Winitzki), then Newton's steps, which double the digits each.
inline double erfinv(double y) {
    if (!(y > -1.0 && y < 1.0)) return y == 1.0 ? HUGE_VAL : y == -1.0 ? -HUGE_VAL : NAN;
    double logarithm = log1p(-y * y), middle = 2.0 / (M_PI * 0.147) + logarithm / 2.0;
    double x = copysign(sqrt(sqrt(middle * middle - logarithm / 0.147) - middle), y);
    for (int i = 0; i < 3; ++i) x -= (erf(x) - y) / (M_2_SQRTPI * exp(-x * x));
    return x;
}
inline double erfcinv(double y) { return erfinv(1.0 - y); }
inline double normcdfinv(double p) { return M_SQRT2 * erfinv(2.0 * p - 1.0); }
inline float erfinvf(float y) { return static_cast<float>(erfinv(y)); }
inline float erfcinvf(float y) { return static_cast<float>(erfcinv(y)); }
inline float normcdfinvf(float p) { return static_cast<float>(normcdfinv(p)); }
inline double cyl_bessel_i0(double x) { return std::cyl_bessel_i(0.0, fabs(x)); }
inline double cyl_bessel_i1(double x) { return copysign(std::cyl_bessel_i(1.0, fabs(x)), x); }
inline float cyl_bessel_i0f(float x) { return static_cast<float>(cyl_bessel_i0(x)); }
inline float cyl_bessel_i1f(float x) { return static_cast<float>(cyl_bessel_i1(x)); }
inline void __sincosf(float x, float* s, float* c) {
    *s = sinf(x);
    *c = cosf(x);
}
inline void sincospif(float x, float* s, float* c) {
    *s = sinpif(x);
    *c = cospif(x);
}
