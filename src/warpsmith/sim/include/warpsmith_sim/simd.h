// Integer intrinsics on the 2 halves or 4 bytes of a word.
#pragma once
#include <type_traits>

#include "core.h"

namespace wsim {

template <class Part, class F>
inline unsigned by_parts(unsigned a, unsigned b, F combine) {
    constexpr unsigned bits = 8 * sizeof(Part), mask = (1u << bits) - 1;
    unsigned result = 0;
    for (unsigned shift = 0; shift < 32; shift += bits) {
        int x = static_cast<Part>(a >> shift & mask), y = static_cast<Part>(b >> shift & mask);
        result |= (static_cast<unsigned>(combine(x, y)) & mask) << shift;
    }
    return result;
}
template <class Part>
inline int saturated(int value) {
    constexpr int low = std::is_signed_v<Part> ? -(1 << (8 * sizeof(Part) - 1)) : 0;
    constexpr int high = (1 << (8 * sizeof(Part) - std::is_signed_v<Part>)) - 1;
    return value < low ? low : value > high ? high : value;
}

}  // namespace wsim

#define WSIM_VECTOR(name, Part, expression) \
    inline unsigned name(unsigned a, unsigned b) { \
        return wsim::by_parts<Part>(a, b, [](int x, int y) -> int { return expression; }); \
    }
#define WSIM_VECTORS(suffix, S, U)                                         \
    WSIM_VECTOR(__vadd##suffix, U, x + y)                                  \
    WSIM_VECTOR(__vsub##suffix, U, x - y)                                  \
    WSIM_VECTOR(__vaddss##suffix, S, wsim::saturated<S>(x + y))            \
    WSIM_VECTOR(__vaddus##suffix, U, wsim::saturated<U>(x + y))            \
    WSIM_VECTOR(__vsubss##suffix, S, wsim::saturated<S>(x - y))            \
    WSIM_VECTOR(__vsubus##suffix, U, wsim::saturated<U>(x - y))            \
    WSIM_VECTOR(__vabsdiffs##suffix, S, x > y ? x - y : y - x)             \
    WSIM_VECTOR(__vabsdiffu##suffix, U, x > y ? x - y : y - x)             \
    WSIM_VECTOR(__vmaxs##suffix, S, x > y ? x : y)                         \
    WSIM_VECTOR(__vmaxu##suffix, U, x > y ? x : y)                         \
    WSIM_VECTOR(__vmins##suffix, S, x < y ? x : y)                         \
    WSIM_VECTOR(__vminu##suffix, U, x < y ? x : y)                         \
    WSIM_VECTOR(__vavgu##suffix, U, (x + y + 1) >> 1)                      \
    WSIM_VECTOR(__vavgs##suffix, S, (x + y + (x + y >= 0)) >> 1)           \
    WSIM_VECTOR(__vhaddu##suffix, U, (x + y) >> 1)                         \
    WSIM_VECTOR(__vcmpeq##suffix, U, x == y ? -1 : 0)                      \
    WSIM_VECTOR(__vcmpne##suffix, U, x != y ? -1 : 0)                      \
    WSIM_VECTOR(__vcmpgts##suffix, S, x > y ? -1 : 0)                      \
    WSIM_VECTOR(__vcmpgtu##suffix, U, x > y ? -1 : 0)                      \
    WSIM_VECTOR(__vcmpges##suffix, S, x >= y ? -1 : 0)                     \
    WSIM_VECTOR(__vcmpgeu##suffix, U, x >= y ? -1 : 0)                     \
    WSIM_VECTOR(__vcmplts##suffix, S, x < y ? -1 : 0)                      \
    WSIM_VECTOR(__vcmpltu##suffix, U, x < y ? -1 : 0)                      \
    WSIM_VECTOR(__vcmples##suffix, S, x <= y ? -1 : 0)                     \
    WSIM_VECTOR(__vcmpleu##suffix, U, x <= y ? -1 : 0)                     \
    WSIM_VECTOR(__vseteq##suffix, U, x == y)                               \
    WSIM_VECTOR(__vsetne##suffix, U, x != y)                               \
    inline unsigned __vneg##suffix(unsigned a) { return __vsub##suffix(0, a); } \
    inline unsigned __vabs##suffix(unsigned a) {                           \
        return wsim::by_parts<S>(a, a, [](int x, int) -> int { return x < 0 ? -x : x; }); \
    }                                                                      \
    inline unsigned __vsadu##suffix(unsigned a, unsigned b) {              \
        unsigned total = 0;                                                \
        wsim::by_parts<U>(a, b, [&](int x, int y) -> int { return static_cast<int>(total += x > y ? x - y : y - x); }); \
        return total;                                                      \
    }
WSIM_VECTORS(2, int16_t, uint16_t)
WSIM_VECTORS(4, int8_t, uint8_t)
#undef WSIM_VECTORS
#undef WSIM_VECTOR
