// What the toolkit gives half types on the device only, computed in float. Used by cuda_fp16.h and cuda_bf16.h.
#pragma once
#include "core.h"
#include "math.h"

#define WSIM_HALF_UNARY(H, H2, TO, FROM, PAIR, name, name2, expression)                     \
    inline H name(H h) {                                                                    \
        float x = TO(h);                                                                    \
        return FROM(expression);                                                            \
    }                                                                                       \
    inline H2 name2(H2 h) { return PAIR(TO(name(h.x)), TO(name(h.y))); }

#define WSIM_HALF_FUNCTIONS(H, H2, TO, FROM, PAIR)                                          \
    inline H __hfma(H a, H b, H c) { return FROM(fmaf(TO(a), TO(b), TO(c))); }              \
    inline H __hfma_sat(H a, H b, H c) { return FROM(__saturatef(fmaf(TO(a), TO(b), TO(c)))); } \
    inline H __hfma_relu(H a, H b, H c) { return FROM(fmaxf(fmaf(TO(a), TO(b), TO(c)), 0.0f)); } \
    inline H2 __hfma2(H2 a, H2 b, H2 c) {                                                   \
        return PAIR(fmaf(TO(a.x), TO(b.x), TO(c.x)), fmaf(TO(a.y), TO(b.y), TO(c.y)));      \
    }                                                                                       \
    inline H2 __hfma2_sat(H2 a, H2 b, H2 c) {                                               \
        H2 r = __hfma2(a, b, c);                                                            \
        return PAIR(__saturatef(TO(r.x)), __saturatef(TO(r.y)));                            \
    }                                                                                       \
    inline H2 h2div(H2 a, H2 b) { return PAIR(TO(a.x) / TO(b.x), TO(a.y) / TO(b.y)); }      \
    inline H2 __hfma2_relu(H2 a, H2 b, H2 c) {                                              \
        H2 r = __hfma2(a, b, c);                                                            \
        return PAIR(fmaxf(TO(r.x), 0.0f), fmaxf(TO(r.y), 0.0f));                            \
    }                                                                                       \
    WSIM_HALF_UNARY(H, H2, TO, FROM, PAIR, hsqrt, h2sqrt, sqrtf(x))                         \
    WSIM_HALF_UNARY(H, H2, TO, FROM, PAIR, hrsqrt, h2rsqrt, 1.0f / sqrtf(x))                \
    WSIM_HALF_UNARY(H, H2, TO, FROM, PAIR, hrcp, h2rcp, 1.0f / x)                           \
    WSIM_HALF_UNARY(H, H2, TO, FROM, PAIR, hexp, h2exp, expf(x))                            \
    WSIM_HALF_UNARY(H, H2, TO, FROM, PAIR, hexp2, h2exp2, exp2f(x))                         \
    WSIM_HALF_UNARY(H, H2, TO, FROM, PAIR, hexp10, h2exp10, powf(10.0f, x))                 \
    WSIM_HALF_UNARY(H, H2, TO, FROM, PAIR, hlog, h2log, logf(x))                            \
    WSIM_HALF_UNARY(H, H2, TO, FROM, PAIR, hlog2, h2log2, log2f(x))                         \
    WSIM_HALF_UNARY(H, H2, TO, FROM, PAIR, hlog10, h2log10, log10f(x))                      \
    WSIM_HALF_UNARY(H, H2, TO, FROM, PAIR, hsin, h2sin, sinf(x))                            \
    WSIM_HALF_UNARY(H, H2, TO, FROM, PAIR, hcos, h2cos, cosf(x))                            \
    WSIM_HALF_UNARY(H, H2, TO, FROM, PAIR, htanh, h2tanh, tanhf(x))                         \
    WSIM_HALF_UNARY(H, H2, TO, FROM, PAIR, htanh_approx, h2tanh_approx, tanhf(x))           \
    WSIM_HALF_UNARY(H, H2, TO, FROM, PAIR, htrunc, h2trunc, truncf(x))                      \
    WSIM_HALF_UNARY(H, H2, TO, FROM, PAIR, hceil, h2ceil, ceilf(x))                         \
    WSIM_HALF_UNARY(H, H2, TO, FROM, PAIR, hfloor, h2floor, floorf(x))                      \
    WSIM_HALF_UNARY(H, H2, TO, FROM, PAIR, hrint, h2rint, rintf(x))
