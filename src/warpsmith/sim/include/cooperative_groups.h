// Cooperative groups: blocks, tiles of up to 32 threads, coalesced and labelled groups. A grid tells its ranks, and
// cannot be synchronised; no clusters.
#pragma once
#include "warpsmith_sim.h"

namespace cooperative_groups {

class thread_block {
public:
    static unsigned size() { return wsim::block_threads(); }
    static unsigned num_threads() { return size(); }
    static unsigned thread_rank() { return wsim::context.rank; }
    static void sync(WSIM_HERE) { __syncthreads(at); }
    static dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    static dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
    static dim3 group_dim() { return blockDim; }
    static dim3 dim_threads() { return blockDim; }
};
inline thread_block this_thread_block() { return {}; }

class grid_group {
public:
    static unsigned long long block_rank() {
        return blockIdx.x + 1ull * gridDim.x * (blockIdx.y + 1ull * gridDim.y * blockIdx.z);
    }
    static unsigned long long num_blocks() { return 1ull * gridDim.x * gridDim.y * gridDim.z; }
    static unsigned long long size() { return num_blocks() * wsim::block_threads(); }
    static unsigned long long num_threads() { return size(); }
    static unsigned long long thread_rank() { return block_rank() * wsim::block_threads() + wsim::context.rank; }
    static dim3 block_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    static dim3 group_dim() { return gridDim; }
    static dim3 dim_blocks() { return gridDim; }
    static bool is_valid() { return false; }
    static void sync(WSIM_HERE) {
        wsim::fail_thread(cudaErrorNotSupported, "%s:%u: grid synchronisation cannot run on the simulator",
                          at.file_name(), at.line());
    }
};
inline grid_group this_grid() { return {}; }

// Lanes of one warp named by a mask; ranks count the lanes of the mask.
class warp_group {
public:
    explicit warp_group(unsigned mask) : mask_(mask) {}
    unsigned size() const { return __popc(mask_); }
    unsigned num_threads() const { return size(); }
    unsigned thread_rank() const { return __popc(mask_ & ((1u << wsim::lane()) - 1)); }
    void sync(WSIM_HERE) const { __syncwarp(mask_, at); }
    template <class T>
    T shfl(T value, int rank, WSIM_HERE) const { return read(value, static_cast<unsigned>(rank) % size(), at); }
    template <class T>
    T shfl_down(T value, unsigned delta, WSIM_HERE) const {
        unsigned source = thread_rank() + delta;
        return read(value, source < size() ? source : thread_rank(), at);
    }
    template <class T>
    T shfl_up(T value, unsigned delta, WSIM_HERE) const {
        return read(value, thread_rank() >= delta ? thread_rank() - delta : thread_rank(), at);
    }
    template <class T>
    T shfl_xor(T value, unsigned mask, WSIM_HERE) const {
        unsigned source = thread_rank() ^ mask;
        return read(value, source < size() ? source : thread_rank(), at);
    }
    int any(int vote, WSIM_HERE) const { return __any_sync(mask_, vote, at); }
    int all(int vote, WSIM_HERE) const { return __all_sync(mask_, vote, at); }
    unsigned ballot(int vote, WSIM_HERE) const { return ranks_of(__ballot_sync(mask_, vote, at)); }
    template <class T>
    unsigned match_any(T value, WSIM_HERE) const { return ranks_of(__match_any_sync(mask_, value, at)); }
    template <class T>
    unsigned match_all(T value, int& same, WSIM_HERE) const { return ranks_of(__match_all_sync(mask_, value, &same, at)); }
    unsigned wsim_mask() const { return mask_; }

private:
    unsigned ranks_of(unsigned lanes) const {
        unsigned result = 0, rank = 0;
        for (int lane = 0; lane < 32; ++lane)
            if (mask_ >> lane & 1u) result |= (lanes >> lane & 1u) << rank++;
        return result;
    }
    // Larger values than an intrinsic moves travel in words.
    template <class T>
    T read(T value, unsigned rank, wsim::Site at) const {
        constexpr unsigned words = (sizeof(T) + 7) / 8;
        uint64_t buffer[words] = {};
        memcpy(buffer, static_cast<const void*>(&value), sizeof(T));
        for (uint64_t& word : buffer)
            word = wsim::read_lane<uint64_t>(wsim::warp_exchange(mask_, word, at), lane_of(rank));
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

// A group whose lanes were found at run time: those that ran together, or those with one label.
class coalesced_group : public warp_group {
public:
    explicit coalesced_group(unsigned mask, unsigned rank = 0, unsigned groups = 1)
        : warp_group(mask), rank_(rank), groups_(groups) {}
    unsigned meta_group_rank() const { return rank_; }
    unsigned meta_group_size() const { return groups_; }

private:
    unsigned rank_, groups_;
};
inline coalesced_group coalesced_threads(WSIM_HERE) { return coalesced_group(__activemask(at)); }
inline coalesced_group tiled_partition(const thread_block&, unsigned size) {
    unsigned mask = size == 32 ? 0xffffffffu : ((1u << size) - 1) << (wsim::lane() & ~(size - 1));
    return coalesced_group(mask, wsim::context.rank / size, (wsim::block_threads() + size - 1) / size);
}
template <class Label>
inline coalesced_group labeled_partition(const warp_group& group, Label label, WSIM_HERE) {
    unsigned mask = group.wsim_mask(), own = __match_any_sync(mask, label, at), seen = 0, rank = 0, groups = 0;
    wsim::Exchanged masks = wsim::warp_exchange(mask, own, at);
    for (unsigned lane = 0; lane < 32; ++lane) {
        if (!(masks.present >> lane & 1u) || (seen >> lane & 1u)) continue;
        unsigned lanes = static_cast<unsigned>(masks.values[lane]);
        if (lanes == own) rank = groups;
        seen |= lanes;
        ++groups;
    }
    return coalesced_group(own, rank, groups);
}
inline coalesced_group binary_partition(const warp_group& group, bool side, WSIM_HERE) {
    unsigned yes = __ballot_sync(group.wsim_mask(), side, at);
    return coalesced_group(side ? yes : group.wsim_mask() & ~yes, side ? 1 : 0, 2);
}

template <class Group>
inline void sync(const Group& group, WSIM_HERE) { group.sync(at); }
template <class Group>
inline auto thread_rank(const Group& group) { return group.thread_rank(); }
template <class Group>
inline auto group_size(const Group& group) { return group.size(); }
template <class Group, class F>
inline void invoke_one(const Group& group, F function) {
    if (group.thread_rank() == 0) function();
}

// Copies at once: what waits for the copy finds it done.
template <class Group>
inline void memcpy_async(const Group& group, void* to, const void* from, size_t bytes) {
    if (group.thread_rank() == 0) memcpy(to, from, bytes);
}
template <class Group, class T>
inline void memcpy_async(const Group& group, T* to, size_t, const T* from, size_t count) {
    if (group.thread_rank() == 0) memcpy(static_cast<void*>(to), from, count * sizeof(T));
}
template <class Group>
inline void wait(const Group& group, WSIM_HERE) { group.sync(at); }
template <unsigned Stages, class Group>
inline void wait_prior(const Group& group, WSIM_HERE) { group.sync(at); }

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
template <class T>
struct bit_xor {
    T operator()(T a, T b) const { return a ^ b; }
};

template <class T, class Combine>
inline T reduce(const warp_group& group, T value, Combine combine, WSIM_HERE) {
    auto typed = [&](T a, T b) { return static_cast<T>(combine(a, b)); };
    return wsim::warp_reduce(group.wsim_mask(), value, typed, at);
}

// Combines the values of the group's lanes before lane `end`; `value` where there is none.
template <class T, class Combine>
inline T wsim_scan(const warp_group& group, T value, T none, Combine combine, unsigned end, wsim::Site at) {
    wsim::Exchanged exchanged = wsim::warp_exchange(group.wsim_mask(), wsim::pack(value), at);
    T result = none;
    bool first = true;
    for (unsigned lane = 0; lane < end; ++lane) {
        if (!(exchanged.present >> lane & 1u)) continue;
        T other = wsim::unpack<T>(exchanged.values[lane]);
        result = first ? other : static_cast<T>(combine(result, other));
        first = false;
    }
    return result;
}
template <class T, class Combine>
inline T inclusive_scan(const warp_group& group, T value, Combine combine, WSIM_HERE) {
    return wsim_scan(group, value, value, combine, wsim::lane() + 1, at);
}
template <class T>
inline T inclusive_scan(const warp_group& group, T value, WSIM_HERE) {
    return wsim_scan(group, value, value, plus<T>{}, wsim::lane() + 1, at);
}
template <class T, class Combine>
inline T exclusive_scan(const warp_group& group, T value, Combine combine, WSIM_HERE) {
    return wsim_scan(group, value, T{}, combine, wsim::lane(), at);
}
template <class T>
inline T exclusive_scan(const warp_group& group, T value, WSIM_HERE) {
    return wsim_scan(group, value, T{}, plus<T>{}, wsim::lane(), at);
}

}  // namespace cooperative_groups
