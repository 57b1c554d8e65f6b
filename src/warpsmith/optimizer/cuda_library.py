"""Text that calls vendor libraries: what all calls share, and one host function for each library step."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.optimizer import cuda_conv, cuda_depthwise, cuda_gemm
from warpsmith.optimizer.cuda_text import Text
from warpsmith.optimizer.library import Conv, Gemm, Library

_SHARED = """\
constexpr int kDevices = 64;

__global__ void never_run() {}

// A launcher returns nothing: its caller is told of a library's refusal as of a launch that failed.
void refuse(const char* what, int status, cudaStream_t stream) {
    fprintf(stderr, "%s: status %d\\n", what, status);
    never_run<<<0, 1, 0, stream>>>();
}

// Descriptors and handles below are shared by all threads.
std::mutex& library_lock() {
    static std::mutex lock;
    return lock;
}

// Memory of at least `bytes` for work on `stream` (streams may run side by side, so each has its own). It is kept:
// how much an algorithm needs is known only once the library chose one on this device. Null where there is none.
void* workspace(int device, cudaStream_t stream, size_t bytes) {
    struct Block { void* data = nullptr; size_t bytes = 0; };
    static std::map<std::pair<int, cudaStream_t>, Block> blocks;
    Block& mine = blocks[{device, stream}];
    if (mine.bytes < bytes) {
        cudaStreamSynchronize(stream);
        cudaFree(mine.data);
        mine = Block{};
        if (cudaMalloc(&mine.data, bytes) != cudaSuccess) return mine.data = nullptr;
        mine.bytes = bytes;
    }
    return bytes ? mine.data : nullptr;
}

int current_device() {
    int device = 0;
    return cudaGetDevice(&device) == cudaSuccess && device < kDevices ? device : -1;
}
"""


def _calling(steps: Sequence[Library]) -> list[Library]:
    """The steps that need a library."""
    return [s for s in steps if isinstance(s.spec, Gemm) or not s.spec.depthwise]


def library_includes(steps: Sequence[Library]) -> str:
    """`#include` lines for the steps' libraries."""
    steps = _calling(steps)
    gemms = any(isinstance(s.spec, Gemm) for s in steps)
    convs = any(isinstance(s.spec, Conv) for s in steps)
    lines = ["cublasLt.h"] * gemms + ["cudnn.h"] * convs
    return "".join(f"#include <{name}>\n" for name in lines)


def library_headers(steps: Sequence[Library]) -> str:
    """`#include` lines for what the shared text needs of C++."""
    headers = ("stdio.h", "map", "mutex", "utility") if _calling(steps) else ()
    return "".join(f"#include <{name}>\n" for name in headers)


def library_support(steps: Sequence[Library]) -> str:
    """The shared text, and that of each library in use."""
    steps = _calling(steps)
    if not steps:
        return ""
    text = _SHARED
    if any(isinstance(s.spec, Gemm) for s in steps):
        text += cuda_gemm.SUPPORT
    convs = [s.spec for s in steps if isinstance(s.spec, Conv)]
    return text + cuda_conv.support(convs) if convs else text


def describe_library(step: Library) -> str:
    """One line: what a step computes, and how."""
    spec = step.spec
    if isinstance(spec, Gemm):
        return cuda_gemm.describe(step, spec)
    return (cuda_depthwise if spec.depthwise else cuda_conv).describe(step, spec)


def library_function(step: Library) -> str:
    """The host function of one step."""
    spec = step.spec
    if isinstance(spec, Gemm):
        return cuda_gemm.function(step, spec)
    return (cuda_depthwise if spec.depthwise else cuda_conv).function(step, spec)


def library_call(t: Text, step: Library) -> None:
    """The line of a launcher that runs a step."""
    pointers = [f"{r.buf} + {r.offset}" if r.offset else r.buf for r in step.refs]
    if isinstance(step.spec, Gemm):
        pointers = cuda_gemm.pointers(step.spec, pointers)
    t.line(f"{step.name}({', '.join([step.outs[0] or '', *pointers, 'stream'])});")
