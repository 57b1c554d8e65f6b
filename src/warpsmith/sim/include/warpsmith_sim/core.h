// What a running CUDA thread sees of the simulator: its indices, and the calls into the scheduler.
#pragma once
#include "keywords.h"

#pragma GCC visibility push(hidden)
// Hidden, so that a kernel finds all of them from one look-up of the module's thread-local block.
extern constinit thread_local uint3 threadIdx, blockIdx;
extern constinit thread_local dim3 blockDim, gridDim;
constexpr int warpSize = 32;

namespace wsim {

// What else the CUDA thread that runs on this OS thread now is given.
struct Context {
    unsigned rank = 0;  // of the thread in its block
    char* dynamic_shared = nullptr;
    size_t dynamic_shared_bytes = 0;
};
extern constinit thread_local Context context;

inline unsigned lane() { return context.rank & 31u; }
inline unsigned block_threads() { return blockDim.x * blockDim.y * blockDim.z; }

// Records an error of this launch (the first one stays) and ends the block; never returns.
[[noreturn]] void fail_thread(cudaError_t code, const char* format, ...) __attribute__((format(printf, 2, 3)));
// Records an error of an API call and hands the code back.
cudaError_t api_error(cudaError_t code, const char* format, ...) __attribute__((format(printf, 2, 3)));

// Lets the block's other threads run; used where a thread spins.
void yield();

void sync_threads();
struct BarrierVote {
    unsigned arrived, agreed;
};
BarrierVote sync_threads_vote(bool vote);

// What the lanes of a mask hand each other at a warp intrinsic. `present`: lanes that took part.
struct Exchanged {
    const uint64_t* values;
    unsigned present;
};
Exchanged warp_exchange(unsigned mask, uint64_t value);
unsigned live_lanes();

}  // namespace wsim
#pragma GCC visibility pop

inline void __syncthreads() { wsim::sync_threads(); }
inline int __syncthreads_count(int vote) { return static_cast<int>(wsim::sync_threads_vote(vote != 0).agreed); }
inline int __syncthreads_and(int vote) {
    wsim::BarrierVote votes = wsim::sync_threads_vote(vote != 0);
    return votes.arrived == votes.agreed;
}
inline int __syncthreads_or(int vote) { return wsim::sync_threads_vote(vote != 0).agreed != 0; }

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __threadfence(); }
inline void __threadfence_system() { __threadfence(); }
inline void __nanosleep(unsigned) { wsim::yield(); }
[[noreturn]] inline void __trap() { wsim::fail_thread(cudaErrorLaunchFailure, "__trap() called"); }
inline void __brkpt() {}
