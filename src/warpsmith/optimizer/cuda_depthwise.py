"""C++ of depthwise convolutions: a kernel of ours, since they move bytes and hardly compute."""

from __future__ import annotations

from warpsmith.optimizer.cuda_text import Text
from warpsmith.optimizer.ir import C_TYPES
from warpsmith.optimizer.library import Conv, Library

THREADS, ACROSS = 256, 4
"""Threads a block; neighbouring outputs of a row that one thread computes."""


def kernel(step: Library, spec: Conv) -> str:
    """The kernel: a block works on one image's channel, a thread on a few outputs of a row, taps in registers."""
    ctype = C_TYPES[spec.dtype]
    (_, channels, height, width), (made, _, rows, columns) = spec.sizes, spec.filter
    down, across = spec.out[2], -(-spec.out[3] // ACROSS)
    (sh, sw), (ph, pw), (dh, dw) = spec.stride, spec.padding, spec.dilation
    span = (ACROSS - 1) * sw + (columns - 1) * dw + 1
    t = Text()
    t.line(f"__global__ void __launch_bounds__({THREADS})")
    parameters = (
        f"{ctype}* __restrict__ out, const {ctype}* __restrict__ in, const {ctype}* __restrict__ filter"
    )
    with t.block(f"{step.name}_kernel({parameters})"):
        t.line(f"const unsigned plane = blockIdx.x / {blocks_a_plane(spec)}u;")
        t.line(f"const int place = blockIdx.x % {blocks_a_plane(spec)}u * {THREADS} + threadIdx.x;")
        t.line(f"if (place >= {down * across}) return;")
        t.line(f"const int p = place / {across}, q = place % {across} * {ACROSS};")
        t.line(f"const unsigned image = plane / {made}u, channel = plane % {made}u;")
        source = f"static_cast<long long>(image * {channels}u + channel / {made // channels}u)"
        t.line(f"const {ctype}* from = in + {source} * {height * width};")
        t.line(f"const {ctype}* taps = filter + channel * {rows * columns}u;")
        t.line(f"float sum[{ACROSS}] = {{}};")
        t.line("#pragma unroll")
        with t.block(f"for (int r = 0; r < {rows}; ++r)"):
            t.line(f"const int h = p * {sh} - {ph} + r * {dh};")
            t.line(f"if (h < 0 || h >= {height}) continue;")
            t.line(f"float x[{span}];")
            t.line("#pragma unroll")
            with t.block(f"for (int i = 0; i < {span}; ++i)"):
                t.line(f"const int v = q * {sw} - {pw} + i;")
                t.line(f"x[i] = v >= 0 && v < {width} ? load_one(from + h * {width} + v) : 0.0f;")
            t.line("#pragma unroll")
            with t.block(f"for (int s = 0; s < {columns}; ++s)"):
                t.line(f"const float tap = load_one(taps + r * {columns} + s);")
                t.line("#pragma unroll")
                t.line(f"for (int j = 0; j < {ACROSS}; ++j) sum[j] += tap * x[j * {sw} + s * {dw}];")
        t.line(f"{ctype}* to = out + (static_cast<long long>(plane) * {down} + p) * {spec.out[3]} + q;")
        t.line("#pragma unroll")
        t.line(f"for (int j = 0; j < {ACROSS}; ++j)")
        t.line(f"    if (q + j < {spec.out[3]}) to[j] = to_stored<{ctype}>(sum[j]);")
    return str(t)


def blocks_a_plane(spec: Conv) -> int:
    """Blocks for one image's channel."""
    return -(-spec.out[2] * -(-spec.out[3] // ACROSS) // THREADS)


def grid(spec: Conv) -> int:
    """Number of blocks."""
    return spec.parts * spec.out[0] * spec.out[1] * blocks_a_plane(spec)


def describe(step: Library, spec: Conv) -> str:
    """One line about a depthwise convolution."""
    name = step.label[1] if step.label else "convolution"
    taps = " × ".join(map(str, spec.filter[2:]))
    return f"{name}: depthwise, {taps} taps, {spec.parts * spec.out[0] * spec.out[1]} planes"


def function(step: Library, spec: Conv) -> str:
    """The kernel, and `name(out, in, filter, stream)`."""
    ctype = C_TYPES[spec.dtype]
    return (
        f"// {describe(step, spec)}\n{kernel(step, spec)}"
        f"void {step.name}({ctype}* out, const {ctype}* in, const {ctype}* filter, cudaStream_t stream) {{\n"
        f"    {step.name}_kernel<<<{grid(spec)}, {THREADS}, 0, stream>>>(out, in, filter);\n}}\n"
    )
