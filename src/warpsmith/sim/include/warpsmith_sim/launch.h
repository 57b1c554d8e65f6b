// `kernel<<<grid, block, shared, stream>>>(args…)` becomes `wsim::launcher("kernel", call, {grid, block, …})(args…)`.
#pragma once
#include <utility>

#include "core.h"

#pragma GCC visibility push(hidden)
namespace wsim {

struct Config {
    dim3 grid, block;
    size_t shared_bytes;
    Config(dim3 grid_, dim3 block_, size_t shared_bytes_ = 0, cudaStream_t = nullptr)
        : grid(grid_), block(block_), shared_bytes(shared_bytes_) {}
};

// Runs `body(argument)` once a CUDA thread; returns when the grid has finished. Errors: cudaGetLastError().
cudaError_t launch(const char* kernel, const Config& config, void (*body)(void*), void* argument);

template <class Call>
struct Launcher {
    const char* kernel;
    Call call;
    Config config;
    template <class... Args>
    cudaError_t operator()(Args... args) const {
        auto body = [&] { call(args...); };
        return launch(kernel, config, [](void* self) { (*static_cast<decltype(body)*>(self))(); }, &body);
    }
};
template <class Call>
Launcher<Call> launcher(const char* kernel, Call call, Config config) {
    return {kernel, call, config};
}

}  // namespace wsim
#pragma GCC visibility pop

template <class... P>
inline cudaError_t cudaLaunchKernel(void (*kernel)(P...), dim3 grid, dim3 block, void** args, size_t shared = 0,
                                    cudaStream_t stream = nullptr) {
    auto call = [=] {
        [=]<size_t... I>(std::index_sequence<I...>) { kernel(*static_cast<P*>(args[I])...); }
        (std::index_sequence_for<P...>{});
    };
    return wsim::launch("cudaLaunchKernel", wsim::Config(grid, block, shared, stream),
                        [](void* self) { (*static_cast<decltype(call)*>(self))(); }, &call);
}
template <class... P, class... Args>
inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(P...), Args... args) {
    wsim::Config plain(config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream);
    return wsim::launcher("cudaLaunchKernelEx", [=](auto... values) { kernel(values...); }, plain)(args...);
}
