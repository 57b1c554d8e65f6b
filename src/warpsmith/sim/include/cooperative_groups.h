// Cooperative groups: thread blocks, tiles of up to 32 threads, coalesced groups. No grid, no clusters.
#pragma once
#include "warpsmith_sim.h"

namespace cooperative_groups {

class thread_block {
public:
    static unsigned size() { return wsim::block_threads(); }
    static unsigned num_threads() { return size(); }
    static unsigned thread_rank() { return wsim::context.rank; }
    static void sync() { __syncthreads(); }
    static dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    static dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
    static dim3 group_dim() { return blockDim; }
    static dim3 dim_threads() { return blockDim; }
};
inline thread_block this_thread_block() { return {}; }

// Lanes of one warp named by a mask; ranks count the lanes of the mask.
class warp_group {
public:
    explicit warp_group(unsigned mask) : mask_(mask) {}
    unsigned size() const { return __popc(mask_); }
    unsigned num_threads() const { return size(); }
    unsigned thread_rank() const { return __popc(mask_ & ((1u << wsim::lane()) - 1)); }
    void sync() const { __syncwarp(mask_); }
    template <class T>
    T shfl(T value, int rank) const { return read(value, static_cast<unsigned>(rank) % size()); }
    template <class T>
    T shfl_down(T value, unsigned delta) const {
        unsigned source = thread_rank() + delta;
        return read(value, source < size() ? source : thread_rank());
    }
    template <class T>
    T shfl_up(T value, unsigned delta) const {
        return read(value, thread_rank() >= delta ? thread_rank() - delta : thread_rank());
    }
    template <class T>
    T shfl_xor(T value, unsigned mask) const {
        unsigned source = thread_rank() ^ mask;
        return read(value, source < size() ? source : thread_rank());
    }
    int any(int vote) const { return __any_sync(mask_, vote); }
    int all(int vote) const { return __all_sync(mask_, vote); }
    unsigned ballot(int vote) const {
        unsigned lanes = __ballot_sync(mask_, vote), result = 0, rank = 0;
        for (int lane = 0; lane < 32; ++lane)
            if (mask_ >> lane & 1u) result |= (lanes >> lane & 1u) << rank++;
        return result;
    }
    unsigned wsim_mask() const { return mask_; }

private:
    // Larger values than an intrinsic moves travel in words.
    template <class T>
    T read(T value, unsigned rank) const {
        constexpr unsigned words = (sizeof(T) + 7) / 8;
        uint64_t buffer[words] = {};
        memcpy(buffer, static_cast<const void*>(&value), sizeof(T));
        for (uint64_t& word : buffer) word = wsim::read_lane<uint64_t>(wsim::warp_exchange(mask_, word), lane_of(rank));
        memcpy(static_cast<void*>(&value), buffer, sizeof(T));
        return value;
    }
    int lane_of(unsigned rank) const {
        for (int lane = 0; lane < 32; ++lane)
            if (mask_ >> lane & 1u && rank-- == 0) return lane;
        return 0;
    }
    unsigned mask_;
};

template <unsigned Size, class Parent = thread_block>
class thread_block_tile : public warp_group {
    static_assert(Size >= 1 && Size <= 32 && (Size & (Size - 1)) == 0, "tiles of 1, 2, 4, 8, 16 or 32 threads");

public:
    thread_block_tile() : warp_group(mask_here()) {}
    static constexpr unsigned size() { return Size; }
    static constexpr unsigned num_threads() { return Size; }
    static unsigned thread_rank() { return wsim::context.rank % Size; }
    static unsigned meta_group_rank() { return wsim::context.rank / Size; }
    static unsigned meta_group_size() { return (wsim::block_threads() + Size - 1) / Size; }

private:
    static unsigned mask_here() {
        return Size == 32 ? 0xffffffffu : ((1u << (Size & 31)) - 1) << (wsim::lane() & ~(Size - 1));
    }
};
template <unsigned Size, class Parent>
inline thread_block_tile<Size, Parent> tiled_partition(const Parent&) { return {}; }

using coalesced_group = warp_group;
inline coalesced_group coalesced_threads() { return warp_group(__activemask()); }

template <class Group>
inline void sync(const Group& group) { group.sync(); }

template <class T>
struct plus {
    T operator()(T a, T b) const { return a + b; }
};
template <class T>
struct greater {
    T operator()(T a, T b) const { return a > b ? a : b; }
};
template <class T>
struct less {
    T operator()(T a, T b) const { return a < b ? a : b; }
};
template <class T>
struct bit_and {
    T operator()(T a, T b) const { return a & b; }
};
template <class T>
struct bit_or {
    T operator()(T a, T b) const { return a | b; }
};

template <class T, class Combine>
inline T reduce(const warp_group& group, T value, Combine combine) {
    return wsim::warp_reduce(group.wsim_mask(), value, [&](T a, T b) { return static_cast<T>(combine(a, b)); });
}
template <class T, class Combine>
inline T inclusive_scan(const warp_group& group, T value, Combine combine) {
    wsim::Exchanged exchanged = wsim::warp_exchange(group.wsim_mask(), wsim::pack(value));
    T result = value;
    bool first = true;
    for (unsigned lane = 0; lane <= wsim::lane(); ++lane) {
        if (!(exchanged.present >> lane & 1u)) continue;
        T other = wsim::unpack<T>(exchanged.values[lane]);
        result = first ? other : combine(result, other);
        first = false;
    }
    return result;
}
template <class T>
inline T inclusive_scan(const warp_group& group, T value) { return inclusive_scan(group, value, plus<T>{}); }
template <class T>
inline T exclusive_scan(const warp_group& group, T value) { return inclusive_scan(group, value, plus<T>{}) - value; }

}  // namespace cooperative_groups
