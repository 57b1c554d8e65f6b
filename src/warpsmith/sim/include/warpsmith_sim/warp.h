// Warp intrinsics: each lane hands over up to 8 bytes and reads what the others gave.
#pragma once
#include "core.h"

namespace wsim {

template <class T>
inline uint64_t pack(T value) {
    static_assert(sizeof(T) <= 8, "a warp intrinsic moves at most 8 bytes a lane");
    uint64_t bits = 0;
    memcpy(&bits, static_cast<const void*>(&value), sizeof(T));
    return bits;
}
template <class T>
inline T unpack(uint64_t bits) {
    T value;
    memcpy(static_cast<void*>(&value), &bits, sizeof(T));
    return value;
}

// The value of lane `source`; of a lane that takes no part all bits are set (NaN), as nothing is promised there.
template <class T>
inline T read_lane(const Exchanged& exchanged, int source) {
    bool present = exchanged.present >> (source & 31) & 1u;
    return unpack<T>(present ? exchanged.values[source & 31] : ~uint64_t{0});
}

template <class T, class Combine>
inline T warp_reduce(unsigned mask, T value, Combine combine, Site at) {
    Exchanged exchanged = warp_exchange(mask, pack(value), at);
    T result = value;
    bool first = true;
    for (int i = 0; i < 32; ++i) {
        if (!(exchanged.present >> i & 1u)) continue;
        T other = unpack<T>(exchanged.values[i]);
        result = first ? other : combine(result, other);
        first = false;
    }
    return result;
}

}  // namespace wsim

inline void __syncwarp(unsigned mask = 0xffffffffu, WSIM_HERE) { wsim::warp_exchange(mask, 0, at); }
inline unsigned __activemask(WSIM_HERE) { return wsim::converged_lanes(at); }

template <class T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, WSIM_HERE) {
    int base = static_cast<int>(wsim::lane()) & ~(width - 1);
    return wsim::read_lane<T>(wsim::warp_exchange(mask, wsim::pack(value), at), base + (source & (width - 1)));
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, WSIM_HERE) {
    unsigned lane = wsim::lane();
    wsim::Exchanged exchanged = wsim::warp_exchange(mask, wsim::pack(value), at);
    bool inside = (lane & (width - 1)) + delta < static_cast<unsigned>(width);
    return inside ? wsim::read_lane<T>(exchanged, lane + delta) : value;
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, WSIM_HERE) {
    unsigned lane = wsim::lane();
    wsim::Exchanged exchanged = wsim::warp_exchange(mask, wsim::pack(value), at);
    bool inside = (lane & (width - 1)) >= delta;
    return inside ? wsim::read_lane<T>(exchanged, lane - delta) : value;
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, WSIM_HERE) {
    int lane = static_cast<int>(wsim::lane()), source = lane ^ lane_mask;
    wsim::Exchanged exchanged = wsim::warp_exchange(mask, wsim::pack(value), at);
    bool inside = (source & ~(width - 1)) <= (lane & ~(width - 1));
    return inside ? wsim::read_lane<T>(exchanged, source) : value;
}

inline unsigned __ballot_sync(unsigned mask, int vote, WSIM_HERE) {
    wsim::Exchanged exchanged = wsim::warp_exchange(mask, vote != 0, at);
    unsigned result = 0;
    for (int i = 0; i < 32; ++i)
        if (exchanged.present >> i & 1u) result |= static_cast<unsigned>(exchanged.values[i] != 0) << i;
    return result;
}
inline int __any_sync(unsigned mask, int vote, WSIM_HERE) { return __ballot_sync(mask, vote, at) != 0; }
inline int __all_sync(unsigned mask, int vote, WSIM_HERE) { return __ballot_sync(mask, !vote, at) == 0; }
template <class T>
inline unsigned __match_any_sync(unsigned mask, T value, WSIM_HERE) {
    wsim::Exchanged exchanged = wsim::warp_exchange(mask, wsim::pack(value), at);
    unsigned result = 0;
    for (int i = 0; i < 32; ++i)
        if (exchanged.present >> i & 1u && exchanged.values[i] == wsim::pack(value)) result |= 1u << i;
    return result;
}
template <class T>
inline unsigned __match_all_sync(unsigned mask, T value, int* same, WSIM_HERE) {
    wsim::Exchanged exchanged = wsim::warp_exchange(mask, wsim::pack(value), at);
    *same = 1;
    for (int i = 0; i < 32; ++i)
        if (exchanged.present >> i & 1u && exchanged.values[i] != wsim::pack(value)) *same = 0;
    return *same ? mask : 0;
}

template <class T>
inline T __reduce_add_sync(unsigned mask, T value, WSIM_HERE) {
    return wsim::warp_reduce(mask, value, [](T a, T b) { return static_cast<T>(a + b); }, at);
}
template <class T>
inline T __reduce_max_sync(unsigned mask, T value, WSIM_HERE) {
    return wsim::warp_reduce(mask, value, [](T a, T b) { return a > b ? a : b; }, at);
}
template <class T>
inline T __reduce_min_sync(unsigned mask, T value, WSIM_HERE) {
    return wsim::warp_reduce(mask, value, [](T a, T b) { return a < b ? a : b; }, at);
}
inline unsigned __reduce_and_sync(unsigned mask, unsigned value, WSIM_HERE) {
    return wsim::warp_reduce(mask, value, [](unsigned a, unsigned b) { return a & b; }, at);
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value, WSIM_HERE) {
    return wsim::warp_reduce(mask, value, [](unsigned a, unsigned b) { return a | b; }, at);
}
inline unsigned __reduce_xor_sync(unsigned mask, unsigned value, WSIM_HERE) {
    return wsim::warp_reduce(mask, value, [](unsigned a, unsigned b) { return a ^ b; }, at);
}
