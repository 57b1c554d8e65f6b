// Atomics of 2, 4 and 8 bytes as compare-and-swap loops over the bits: any type that has the operator.
#pragma once
#include <type_traits>

#include "core.h"

namespace wsim {

template <size_t Bytes>
struct BitsOf;
template <>
struct BitsOf<2> { using type = uint16_t; };
template <>
struct BitsOf<4> { using type = uint32_t; };
template <>
struct BitsOf<8> { using type = uint64_t; };

// *address = update(*address), returns the old value.
template <class T, class Update>
inline T atomic_update(T* address, Update update) {
    using Bits = typename BitsOf<sizeof(T)>::type;
    Bits* word = reinterpret_cast<Bits*>(const_cast<std::remove_volatile_t<T>*>(address));
    Bits expected = __atomic_load_n(word, __ATOMIC_SEQ_CST), desired;
    std::remove_volatile_t<T> old, next;
    do {
        memcpy(static_cast<void*>(&old), &expected, sizeof(T));
        next = update(old);
        memcpy(&desired, static_cast<const void*>(&next), sizeof(T));
    } while (!__atomic_compare_exchange_n(word, &expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    after_atomic();
    return old;
}

}  // namespace wsim

template <class T, class V>
inline T atomicAdd(T* address, V value) {
    return wsim::atomic_update(address, [=](T old) { return static_cast<T>(old + static_cast<T>(value)); });
}
// Vectors are added element by element, as on the GPU.
inline float2 atomicAdd(float2* address, float2 value) {
    return {atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y)};
}
inline float4 atomicAdd(float4* address, float4 value) {
    return {atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y), atomicAdd(&address->z, value.z),
            atomicAdd(&address->w, value.w)};
}
template <class T, class V>
inline T atomicSub(T* address, V value) {
    return wsim::atomic_update(address, [=](T old) { return static_cast<T>(old - static_cast<T>(value)); });
}
template <class T, class V>
inline T atomicMax(T* address, V value) {
    return wsim::atomic_update(address, [=](T old) { return old > static_cast<T>(value) ? old : static_cast<T>(value); });
}
template <class T, class V>
inline T atomicMin(T* address, V value) {
    return wsim::atomic_update(address, [=](T old) { return old < static_cast<T>(value) ? old : static_cast<T>(value); });
}
template <class T, class V>
inline T atomicExch(T* address, V value) {
    return wsim::atomic_update(address, [=](T) { return static_cast<T>(value); });
}
template <class T, class V>
inline T atomicAnd(T* address, V value) {
    return wsim::atomic_update(address, [=](T old) { return static_cast<T>(old & static_cast<T>(value)); });
}
template <class T, class V>
inline T atomicOr(T* address, V value) {
    return wsim::atomic_update(address, [=](T old) { return static_cast<T>(old | static_cast<T>(value)); });
}
template <class T, class V>
inline T atomicXor(T* address, V value) {
    return wsim::atomic_update(address, [=](T old) { return static_cast<T>(old ^ static_cast<T>(value)); });
}
inline unsigned atomicInc(unsigned* address, unsigned limit) {
    return wsim::atomic_update(address, [=](unsigned old) { return old >= limit ? 0u : old + 1; });
}
inline unsigned atomicDec(unsigned* address, unsigned limit) {
    return wsim::atomic_update(address, [=](unsigned old) { return old == 0 || old > limit ? limit : old - 1; });
}
// Compares bits, as hardware does. A failed exchange yields, so that a spin lock held by a sibling thread is let go.
template <class T, class C, class V>
inline T atomicCAS(T* address, C compare, V value) {
    using Bits = typename wsim::BitsOf<sizeof(T)>::type;
    T wanted = static_cast<T>(compare), next = static_cast<T>(value), old;
    Bits expected, desired;
    memcpy(&expected, static_cast<const void*>(&wanted), sizeof(T));
    memcpy(&desired, static_cast<const void*>(&next), sizeof(T));
    if (!__atomic_compare_exchange_n(reinterpret_cast<Bits*>(address), &expected, desired, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST))
        wsim::yield();
    memcpy(static_cast<void*>(&old), &expected, sizeof(T));
    return old;
}

#define WSIM_SCOPED_ATOMIC(name)                                                              \
    template <class T, class V>                                                               \
    inline T name##_block(T* address, V value) { return name(address, value); }               \
    template <class T, class V>                                                               \
    inline T name##_system(T* address, V value) { return name(address, value); }
WSIM_SCOPED_ATOMIC(atomicAdd)
WSIM_SCOPED_ATOMIC(atomicMax)
WSIM_SCOPED_ATOMIC(atomicMin)
WSIM_SCOPED_ATOMIC(atomicExch)
WSIM_SCOPED_ATOMIC(atomicOr)
WSIM_SCOPED_ATOMIC(atomicAnd)
WSIM_SCOPED_ATOMIC(atomicXor)
WSIM_SCOPED_ATOMIC(atomicSub)
#undef WSIM_SCOPED_ATOMIC
template <class T, class C, class V>
inline T atomicCAS_block(T* address, C compare, V value) { return atomicCAS(address, compare, value); }
template <class T, class C, class V>
inline T atomicCAS_system(T* address, C compare, V value) { return atomicCAS(address, compare, value); }
