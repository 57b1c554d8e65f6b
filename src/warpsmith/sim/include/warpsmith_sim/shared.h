// Shared memory. `__shared__ float t[32][33];` becomes a reference into the block's arena (see shared_object);
// `extern __shared__ float s[];` a pointer to the launch's dynamic part. Both start as NaN in every block.
#pragma once
#include "core.h"

#pragma GCC visibility push(hidden)
namespace wsim {

struct SharedSlot {
    unsigned index;
    size_t offset, bytes;
};
SharedSlot register_shared(size_t bytes, size_t alignment);
void* shared_storage(const SharedSlot& slot);

// `Tag` is a local type, so that each instantiation of a template has its own variable.
template <class T, class Tag>
inline T& shared_object() {
    static const SharedSlot slot = register_shared(sizeof(T), alignof(T));
    return *static_cast<T*>(shared_storage(slot));
}
template <class T>
inline T* dynamic_shared() {
    return reinterpret_cast<T*>(context.dynamic_shared);
}

}  // namespace wsim
#pragma GCC visibility pop

template <class T>
inline unsigned __cvta_generic_to_shared(const T* pointer) {
    return static_cast<unsigned>(reinterpret_cast<const char*>(pointer) - wsim::context.dynamic_shared);
}
template <class T>
inline int __isShared(const T*) { return 0; }
template <class T>
inline int __isGlobal(const T*) { return 1; }
template <class T>
inline int __isConstant(const T*) { return 0; }
template <class T>
inline int __isLocal(const T*) { return 0; }
