// Conversions and arithmetic with a rounding mode in the name: rn to nearest, rz to zero, rd down, ru up.
#pragma once
#include <math.h>

#include <limits>

#include "core.h"

namespace wsim {

enum class Round { rn, rz, rd, ru };

// As CUDA converts: what is too large becomes the largest, NaN becomes 0.
template <class To, Round ROUND, class From>
inline To to_integer(From x) {
    if (x != x) return 0;
    From whole = ROUND == Round::rn ? nearbyint(x) : ROUND == Round::rz ? trunc(x) : ROUND == Round::rd ? floor(x) : ceil(x);
    constexpr long double low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
    if (whole <= low) return std::numeric_limits<To>::min();
    return whole >= high ? std::numeric_limits<To>::max() : static_cast<To>(whole);
}
template <class To, Round ROUND>
inline To to_floating(long double x) {
    To y = static_cast<To>(x);
    if (ROUND == Round::rn || y == x || x != x) return y;
    bool down = ROUND == Round::rd || (ROUND == Round::rz && x > 0);
    if (down) return y > x ? static_cast<To>(nextafter(y, -std::numeric_limits<To>::infinity())) : y;
    return y < x ? static_cast<To>(nextafter(y, std::numeric_limits<To>::infinity())) : y;
}

}  // namespace wsim

#define WSIM_MODES(M, ...) M(rn, __VA_ARGS__) M(rz, __VA_ARGS__) M(rd, __VA_ARGS__) M(ru, __VA_ARGS__)

#define WSIM_TO_INTEGER(mode, from, From, to, To) \
    inline To __##from##2##to##_##mode(From x) { return wsim::to_integer<To, wsim::Round::mode>(x); }
WSIM_MODES(WSIM_TO_INTEGER, float, float, int, int)
WSIM_MODES(WSIM_TO_INTEGER, float, float, uint, unsigned)
WSIM_MODES(WSIM_TO_INTEGER, float, float, ll, long long)
WSIM_MODES(WSIM_TO_INTEGER, float, float, ull, unsigned long long)
WSIM_MODES(WSIM_TO_INTEGER, double, double, int, int)
WSIM_MODES(WSIM_TO_INTEGER, double, double, uint, unsigned)
WSIM_MODES(WSIM_TO_INTEGER, double, double, ll, long long)
WSIM_MODES(WSIM_TO_INTEGER, double, double, ull, unsigned long long)
#undef WSIM_TO_INTEGER

#define WSIM_TO_FLOATING(mode, from, From, to, To) \
    inline To __##from##2##to##_##mode(From x) { return wsim::to_floating<To, wsim::Round::mode>(x); }
WSIM_MODES(WSIM_TO_FLOATING, int, int, float, float)
WSIM_MODES(WSIM_TO_FLOATING, uint, unsigned, float, float)
WSIM_MODES(WSIM_TO_FLOATING, ll, long long, float, float)
WSIM_MODES(WSIM_TO_FLOATING, ull, unsigned long long, float, float)
WSIM_MODES(WSIM_TO_FLOATING, ll, long long, double, double)
WSIM_MODES(WSIM_TO_FLOATING, ull, unsigned long long, double, double)
WSIM_MODES(WSIM_TO_FLOATING, double, double, float, float)
#undef WSIM_TO_FLOATING
inline double __int2double_rn(int x) { return x; }
inline double __uint2double_rn(unsigned x) { return x; }

#define WSIM_ARITHMETIC(mode, f, T)                                                                                     \
    inline T __##f##add_##mode(T x, T y) { return wsim::to_floating<T, wsim::Round::mode>((long double)x + y); }        \
    inline T __##f##sub_##mode(T x, T y) { return wsim::to_floating<T, wsim::Round::mode>((long double)x - y); }        \
    inline T __##f##mul_##mode(T x, T y) { return wsim::to_floating<T, wsim::Round::mode>((long double)x * y); }        \
    inline T __##f##div_##mode(T x, T y) { return wsim::to_floating<T, wsim::Round::mode>((long double)x / y); }        \
    inline T __##f##rcp_##mode(T x) { return wsim::to_floating<T, wsim::Round::mode>(1.0L / x); }                       \
    inline T __##f##sqrt_##mode(T x) { return wsim::to_floating<T, wsim::Round::mode>(sqrtl(x)); }
#define WSIM_DIRECTED(M, ...) M(rz, __VA_ARGS__) M(rd, __VA_ARGS__) M(ru, __VA_ARGS__)
WSIM_DIRECTED(WSIM_ARITHMETIC, f, float)
WSIM_DIRECTED(WSIM_ARITHMETIC, d, double)
#undef WSIM_ARITHMETIC
#undef WSIM_DIRECTED
#undef WSIM_MODES

// To nearest is what the processor does; through long double it would be rounded twice.
#define WSIM_NEAREST(f, T)                              \
    inline T __##f##add_rn(T x, T y) { return x + y; }  \
    inline T __##f##sub_rn(T x, T y) { return x - y; }  \
    inline T __##f##mul_rn(T x, T y) { return x * y; }  \
    inline T __##f##div_rn(T x, T y) { return x / y; }  \
    inline T __##f##rcp_rn(T x) { return 1 / x; }       \
    inline T __##f##sqrt_rn(T x) { return sqrt(x); }
WSIM_NEAREST(f, float)
WSIM_NEAREST(d, double)
#undef WSIM_NEAREST
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fmaf_rz(float a, float b, float c) { return wsim::to_floating<float, wsim::Round::rz>((long double)a * b + c); }
inline float __fmaf_rd(float a, float b, float c) { return wsim::to_floating<float, wsim::Round::rd>((long double)a * b + c); }
inline float __fmaf_ru(float a, float b, float c) { return wsim::to_floating<float, wsim::Round::ru>((long double)a * b + c); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
