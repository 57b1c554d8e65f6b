"""Indented text, kernel parameters, and the load, store and reduction helpers that generated files start with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from warpsmith.optimizer.fuse import Kernel
from warpsmith.optimizer.ir import C_TYPES, Program

if TYPE_CHECKING:
    from warpsmith.optimizer.plan import Launch


class Text:
    """Lines with nested braces."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0

    def line(self, text: str) -> None:
        """One line at the current depth."""
        self.lines.append("    " * self.depth + text if text else "")

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        """`head { … }`."""
        self.line(f"{head} {{" if head else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line(tail)

    def include(self, other: Text) -> None:
        """Another text's lines, indented to here."""
        for line in other.lines:
            self.line(line)

    def __str__(self) -> str:
        return "\n".join(self.lines) + "\n"


def strided_loop(
    t: Text, body: Text, launch: Launch, whole: int, rest: int, suffix: str, unroll: int
) -> None:
    """`body` for each `e` that is this thread's: `whole` rounds unguarded, and of the last one `rest` threads.

    With a rest the body is written once, in a scope of its own: another pass has its own step.
    """

    def rounds(inside: Text) -> None:
        t.line(f"#pragma unroll {unroll}")
        with t.block(f"for ({launch.index} k = 0; k < {whole}; ++k)"):
            t.line(f"const {launch.index} e = lane + k * {launch.group}{suffix};")
            t.include(inside)

    if not rest:
        rounds(body)
        return
    call = Text()
    call.line("step(e);")
    with t.block(""):
        with t.block(f"const auto step = [&](const {launch.index} e)", "};"):
            t.include(body)
        rounds(call)
        t.line(f"if (lane < {rest}{suffix}) step(lane + {whole * launch.group}{suffix});")


def pointer_parameters(
    program: Program, kernel: Kernel, fresh: frozenset[str] = frozenset()
) -> tuple[list[str], list[str]]:
    """Declarations of a kernel's output and input pointers.

    `fresh`: buffers that other blocks write while this one runs; they may not be read as if nobody did.
    """
    outs, ins = kernel_buffers(program, kernel)

    def declared(buf: str, const: str) -> str:
        return f"{const}{C_TYPES[program.buffers[buf].dtype]}* {'' if buf in fresh else '__restrict__ '}{buf}"

    return [declared(b, "") for b in outs], [declared(b, "const ") for b in ins]


def kernel_buffers(program: Program, kernel: Kernel) -> tuple[list[str], list[str]]:
    """Names of the buffers that a kernel writes and reads, in order of use."""
    outs = [i.buf for i in kernel.items if i.store]
    own = {i.buf for i in kernel.items}
    ins = [n.buf for i in kernel.items for n in program.arena.loads(i.expr) if n.buf not in own]
    return outs, list(dict.fromkeys(ins))


PREAMBLE = """\
#include <cuda_runtime.h>
{includes}#include <cstdint>
#include <math.h>
#include <type_traits>

namespace {{

"""

HALF_IN = "    else if constexpr (std::is_same_v<T, __half>) return __half2float(x);\n"
HALF_OUT = "    else if constexpr (std::is_same_v<To, __half>) return __float2half_rn(x);\n"
BFLOAT16_IN = "    else if constexpr (std::is_same_v<T, __nv_bfloat16>) return __bfloat162float(x);\n"
BFLOAT16_OUT = "    else if constexpr (std::is_same_v<To, __nv_bfloat16>) return __float2bfloat16_rn(x);\n"
CONVERT = """\
// A stored element as kernels compute with it (float, long long, bool), and back.
template <class T>
__device__ __forceinline__ auto to_compute(T x) {{
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, bool>) return x;
{ins}    else return static_cast<long long>(x);
}}
template <class To, class From>
__device__ __forceinline__ To to_stored(From x) {{
    if constexpr (std::is_same_v<To, From>) return x;
{outs}    else return static_cast<To>(x);
}}
"""
VECTORS = """
template <class T>
__device__ __forceinline__ auto load_one(const T* p) { return to_compute(*p); }

// `N` neighbouring elements in one aligned access.
template <class T, int N>
struct alignas(N * sizeof(T)) Vector { T v[N]; };
template <class C, class T, int N>
__device__ __forceinline__ void load(C (&out)[N], const T* p) {
    const auto x = *reinterpret_cast<const Vector<T, N>*>(p);
#pragma unroll
    for (int j = 0; j < N; ++j) out[j] = to_compute(x.v[j]);
}
template <class T, class C, int N>
__device__ __forceinline__ void store(T* p, const C (&x)[N]) {
    Vector<T, N> y;
#pragma unroll
    for (int j = 0; j < N; ++j) y.v[j] = to_stored<T, C>(x[j]);
    *reinterpret_cast<Vector<T, N>*>(p) = y;
}
// The same for memory that is touched once and not worth a place in the cache.
template <class C, class T, int N>
__device__ __forceinline__ void load_streaming(C (&out)[N], const T* p) {
    if constexpr (std::is_same_v<T, float> && N == 4) {
        const float4 x = __ldcs(reinterpret_cast<const float4*>(p));
        out[0] = x.x, out[1] = x.y, out[2] = x.z, out[3] = x.w;
    } else if constexpr (std::is_same_v<T, float> && N == 1) {
        out[0] = __ldcs(p);
    } else {
        load(out, p);
    }
}
template <class T, class C, int N>
__device__ __forceinline__ void store_streaming(T* p, const C (&x)[N]) {
    if constexpr (std::is_same_v<T, float> && N == 4) {
        __stcs(reinterpret_cast<float4*>(p), make_float4(x[0], x[1], x[2], x[3]));
    } else if constexpr (std::is_same_v<T, float> && N == 1) {
        __stcs(p, x[0]);
    } else {
        store(p, x);
    }
}
template <int Stride, class C, class T, int N>
__device__ __forceinline__ void load_strided(C (&out)[N], const T* p) {
#pragma unroll
    for (int j = 0; j < N; ++j) out[j] = to_compute(p[j * Stride]);
}
"""
REDUCTIONS = """\

struct Sum {
    template <class T>
    static __device__ __forceinline__ T apply(T a, T b) { return a + b; }
};
struct Product {
    template <class T>
    static __device__ __forceinline__ T apply(T a, T b) { return a * b; }
};
struct Max {
    template <class T>
    static __device__ __forceinline__ T apply(T a, T b) { return nan_max(a, b); }
};
struct Min {
    template <class T>
    static __device__ __forceinline__ T apply(T a, T b) { return nan_min(a, b); }
};

// Combines `x` over a group of `Group` neighbouring threads; every thread of the block must call it.
template <int Group, class Combine, class T>
__device__ __forceinline__ T reduce_row(T x) {
    constexpr int kWarp = Group < 32 ? Group : 32;
#pragma unroll
    for (int step = kWarp / 2; step > 0; step /= 2)
        x = Combine::apply(x, __shfl_xor_sync(0xffffffffu, x, step));
    if constexpr (Group > 32) {
        constexpr int kWarps = Group / 32;
        __shared__ T part[kWarps];
        __syncthreads();
        if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
        __syncthreads();
        x = part[threadIdx.x % kWarps];
#pragma unroll
        for (int step = kWarps / 2; step > 0; step /= 2)
            x = Combine::apply(x, __shfl_xor_sync(0xffffffffu, x, step));
    }
    return x;
}

// `x` combined with those of the lower lanes of the warp.
template <class Combine, class T>
__device__ __forceinline__ T scan_warp(T x) {
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const T lower = __shfl_up_sync(0xffffffffu, x, step);
        if (threadIdx.x % 32 >= step) x = Combine::apply(lower, x);
    }
    return x;
}

// Turns totals into totals of everything up to and with them, `carry` first; the first warp does it.
template <int N, class Combine, class T>
__device__ __forceinline__ void scan_parts(T (&part)[N], T carry) {
    if (threadIdx.x < 32) {
#pragma unroll
        for (int k = 0; k < N; k += 32) {
            const int at = k + threadIdx.x;
            T x = scan_warp<Combine>(part[at < N ? at : N - 1]);
            x = Combine::apply(carry, x);
            if (at < N) part[at] = x;
            carry = __shfl_sync(0xffffffffu, x, 31);
        }
    }
}

// Combines `x` over the `Group` threads that share a column of a block of `Columns` columns.
template <int Group, int Columns, class Combine, class T>
__device__ __forceinline__ T reduce_column(T x) {
    if constexpr (Group > 1) {
        __shared__ T part[Group][Columns];
        __syncthreads();
        part[threadIdx.x / Columns][threadIdx.x % Columns] = x;
        __syncthreads();
        x = part[0][threadIdx.x % Columns];
#pragma unroll
        for (int k = 1; k < Group; ++k) x = Combine::apply(x, part[k][threadIdx.x % Columns]);
    }
    return x;
}
"""
