// What a running CUDA thread sees of the simulator: its indices, and the calls into the scheduler.
#pragma once
#include "keywords.h"

#include <source_location>

#pragma GCC visibility push(hidden)
// Hidden, so that a kernel finds all of them from one look-up of the module's thread-local block.
extern constinit thread_local uint3 threadIdx, blockIdx;
extern constinit thread_local dim3 blockDim, gridDim;
constexpr int warpSize = 32;

namespace wsim {

// Where in the submission's source a thread waits; the default argument WSIM_HERE is the caller's own line.
using Site = std::source_location;
#define WSIM_HERE ::wsim::Site at = ::wsim::Site::current()

// What else the CUDA thread that runs on this OS thread now is given.
struct Context {
    unsigned rank = 0;  // of the thread in its block
    char* dynamic_shared = nullptr;
    size_t dynamic_shared_bytes = 0;
    unsigned atomics = 0;  // since the thread last let others run
};
extern constinit thread_local Context context;

inline unsigned lane() { return context.rank & 31u; }
inline unsigned block_threads() { return blockDim.x * blockDim.y * blockDim.z; }

// Records an error of this launch (the first one stays) and ends the block; never returns.
[[noreturn]] void fail_thread(cudaError_t code, const char* format, ...) __attribute__((format(printf, 2, 3)));
// Records an error of an API call and hands the code back.
cudaError_t api_error(cudaError_t code, const char* format, ...) __attribute__((format(printf, 2, 3)));

// Whether launches and library calls do nothing, as a judge may have it for one call: what is right then was made otherwise.
bool disarmed();

// Lets the block's other threads run; used where a thread spins.
void yield();

void sync_threads(Site at);
struct BarrierVote {
    unsigned arrived, agreed;
};
BarrierVote sync_threads_vote(bool vote, Site at);

// What the lanes of a mask hand each other at a warp intrinsic. `present`: lanes that took part.
struct Exchanged {
    const uint64_t* values;
    unsigned present;
};
Exchanged warp_exchange(unsigned mask, uint64_t value, Site at);
// The lanes of this warp that wait at this very place once nothing else can run: the most that could converge.
unsigned converged_lanes(Site at);

// A loop of atomics may wait for a thread that has not run yet.
inline void after_atomic() {
    if ((++context.atomics & 1023u) == 0) yield();
}

}  // namespace wsim
#pragma GCC visibility pop

inline void __syncthreads(WSIM_HERE) { wsim::sync_threads(at); }
inline int __syncthreads_count(int vote, WSIM_HERE) {
    return static_cast<int>(wsim::sync_threads_vote(vote != 0, at).agreed);
}
inline int __syncthreads_and(int vote, WSIM_HERE) {
    wsim::BarrierVote votes = wsim::sync_threads_vote(vote != 0, at);
    return votes.arrived == votes.agreed;
}
inline int __syncthreads_or(int vote, WSIM_HERE) { return wsim::sync_threads_vote(vote != 0, at).agreed != 0; }

// A fence often stands in a loop that waits for another thread: it lets the others run.
inline void __threadfence() {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    wsim::yield();
}
inline void __threadfence_block() { __threadfence(); }
inline void __threadfence_system() { __threadfence(); }
inline void __nanosleep(unsigned) { wsim::yield(); }
[[noreturn]] inline void __trap() { wsim::fail_thread(cudaErrorLaunchFailure, "__trap() called"); }
inline void __brkpt() {}
