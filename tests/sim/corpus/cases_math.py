"""Cases of products, convolutions, layers and libraries."""

import torch
import torch.nn.functional as F
from tests.sim.corpus.cases import Case, fresh

I32, I64, U32 = torch.int32, torch.int64, torch.uint32
HALF, BF16 = torch.float16, torch.bfloat16


def product(a, b, c, *sizes):
    return a @ b


def gemm(name, m, n, k, dtype=torch.float32, tolerance=2e-5):
    def arguments(d):
        return [d.floats(m, k, dtype=dtype), d.floats(k, n, dtype=dtype), fresh(m, n, dtype=dtype), m, n, k]

    return Case(name, "linear", arguments, (2,), product, tolerance)


def attended(q, k, v, out, length, scale):
    scores = (q @ k.T * scale).masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
    return scores.softmax(1) @ v


def pooled(x, top, average, channels, height, width):
    return F.max_pool2d(x[None], 2)[0], F.avg_pool2d(x[None], 2)[0]


def rotated(x, length, heads, pairs, base):
    v = torch.view_as_complex(x.view(length, heads, pairs, 2))
    angle = torch.arange(length)[:, None] * base ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
    return torch.view_as_real(v * torch.polar(torch.ones_like(angle), angle)[:, None])


def step(weight, g, m, v, rate, count, n):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    scaled = m / (1 - 0.9**count) / ((v / (1 - 0.999**count)).sqrt() + 1e-8)
    return weight - rate * scaled, m, v


def mixed(x, y, n):
    a = x.abs() + 0.1
    total = a.log() + x.sin() + x.cos() + x / a + a.rsqrt() + x.sign() * x.abs() ** (1 / 3) + x.tanh()
    total += (
        x.clamp(0, 1) + x.clamp(max=0.25) + a.copysign(x) + x.floor() + x.round() + 1 / a + x.exp2() + a**1.5
    )
    return (
        total + x.erfc() + a.lgamma() + x.hypot(a) + x.fmod(torch.tensor(0.3, dtype=torch.float32).double())
    )


def half_math(x, y, n):
    v = x.abs()
    v = v.sqrt() + (-v).exp() * 0.5
    return torch.where(v > 1, v - 1, v)


def activated(x, y, n):
    return torch.cat([x.relu(), F.gelu(x), F.silu(x), F.softplus(x)])


def away_from_one(d):
    x = d.floats(200, dtype=HALF)
    return [
        torch.where((half_math(x.double(), None, 0) - 0.0 < 0.02), x.abs() + 1, x),
        fresh(200, dtype=HALF),
        200,
    ]


def _philox_words(y: torch.Tensor, seed: int, n: int) -> torch.Tensor:
    full = 0xFFFFFFFF
    words: list[int] = []
    for i in range(n // 4):
        a, b, c, e, key0, key1 = i, 0, 0, 0, seed, 0
        for _ in range(10):
            p, q = 0xD2511F53 * a, 0xCD9E8D57 * c
            a, b, c, e = (q >> 32) ^ b ^ key0, q & full, (p >> 32) ^ e ^ key1, p & full
            key0, key1 = (key0 + 0x9E3779B9) & full, (key1 + 0xBB67AE85) & full
        words += [a, b, c, e]
    return torch.tensor(words)


_LINEAR = (
    gemm("gemm_naive", 30, 41, 25),
    gemm("gemm_tiled", 33, 40, 50),
    gemm("gemm_half", 40, 35, 64, HALF, 1e-3),
    gemm("gemm_bf16", 20, 24, 33, BF16, 8e-3),
    gemm("gemm_registers", 70, 66, 40),
    Case(
        "gemv_half2",
        "linear",
        lambda d: [d.floats(13, 96, dtype=HALF), d.floats(96, dtype=HALF), fresh(13), 13, 96],
        (2,),
        lambda a, x, y, rows, width: a @ x,
    ),
    Case(
        "batched_gemm",
        "linear",
        lambda d: [d.floats(3, 10, 12), d.floats(3, 12, 17), fresh(3, 10, 17), 3, 10, 17, 12],
        (2,),
        product,
    ),
    Case(
        "conv1d",
        "linear",
        lambda d: [d.floats(2, 3, 150), d.floats(4, 3, 5), fresh(2, 4, 146), 2, 3, 4, 150, 5],
        (2,),
        lambda x, w, *rest: F.conv1d(x, w),
    ),
    Case(
        "conv2d",
        "linear",
        lambda d: [d.floats(3, 15, 17), d.floats(5, 3, 3, 3), fresh(5, 8, 9), 3, 5, 15, 17, 3, 2, 1],
        (2,),
        lambda x, w, *rest: F.conv2d(x[None], w, stride=2, padding=1),
    ),
    Case(
        "depthwise",
        "linear",
        lambda d: [d.floats(6, 12, 14), d.floats(6, 1, 3, 3), fresh(6, 12, 14), 6, 12, 14, 3],
        (2,),
        lambda x, w, *rest: F.conv2d(x[None], w, padding=1, groups=6),
    ),
    Case(
        "pool2x2",
        "linear",
        lambda d: [d.floats(3, 10, 14), fresh(3, 5, 7), fresh(3, 5, 7), 3, 10, 14],
        (1, 2),
        pooled,
        1e-6,
    ),
    Case(
        "attention",
        "linear",
        lambda d: [d.floats(40, 64), d.floats(40, 64), d.floats(40, 64), fresh(40, 64), 40, 0.125],
        (3,),
        attended,
        1e-4,
    ),
)

_LAYERS = (
    Case(
        "softmax_online",
        "layers",
        lambda d: [d.floats(9, 77) * 3, fresh(9, 77), 9, 77],
        (1,),
        lambda x, y, rows, width: x.softmax(1),
    ),
    Case(
        "layer_norm",
        "layers",
        lambda d: [d.floats(6, 150) + 2, d.floats(150), d.floats(150), fresh(6, 150), 6, 150, 1e-5],
        (3,),
        lambda x, gain, bias, y, rows, width, epsilon: F.layer_norm(x, (width,), gain, bias, epsilon),
    ),
    Case(
        "rms_norm_bf16",
        "layers",
        lambda d: [d.floats(5, 96, dtype=BF16), d.floats(96, dtype=BF16), fresh(5, 96, dtype=BF16), 5, 96],
        (2,),
        lambda x, gain, y, rows, width: x * (x.pow(2).mean(1, keepdim=True) + 1e-6).rsqrt() * gain,
        8e-3,
    ),
    Case(
        "group_norm",
        "layers",
        lambda d: [d.floats(2, 8, 30), fresh(2, 8, 30), 2, 8, 4, 30],
        (1,),
        lambda x, y, batch, channels, groups, plane: F.group_norm(x, groups),
        1e-4,
    ),
    Case("activations", "layers", lambda d: [d.floats(300) * 4, fresh(1200), 300], (1,), activated),
    Case(
        "cross_entropy",
        "layers",
        lambda d: [d.floats(12, 50), d.ints(0, 50, 12, dtype=I64), fresh(12), 12, 50],
        (2,),
        lambda logits, target, loss, rows, classes: F.cross_entropy(logits, target, reduction="none"),
    ),
    Case("rope", "layers", lambda d: [d.floats(17, 3 * 8 * 2), 17, 3, 8, 10000.0], (0,), rotated, 1e-4),
    Case("random_words", "layers", lambda d: [fresh(256, dtype=U32), 1234, 256], (0,), _philox_words),
    Case(
        "axpy_half2",
        "layers",
        lambda d: [d.floats(150, dtype=HALF), d.floats(150, dtype=HALF), 0.75, 150],
        (1,),
        lambda x, y, factor, n: factor * x + y,
        1e-3,
    ),
    Case("half_math", "layers", away_from_one, (1,), half_math, 1e-2),
    Case(
        "bf16_add",
        "layers",
        lambda d: [d.floats(150, dtype=BF16), d.floats(150, dtype=BF16), fresh(150, dtype=BF16), 150],
        (2,),
        lambda a, b, c, n: a + 2 * b,
        8e-3,
    ),
    Case(
        "adam_step",
        "layers",
        lambda d: [d.floats(120), d.floats(120), d.floats(120), d.floats(120).abs(), 0.01, 7, 120],
        (0, 2, 3),
        step,
        1e-4,
    ),
    Case("math_mix", "layers", lambda d: [d.floats(250), fresh(250), 250], (1,), mixed, 1e-4),
)

_LIBRARIES = (
    Case(
        "blas_sgemm",
        "libraries",
        lambda d: [d.floats(20, 33), d.floats(15, 33), fresh(20, 15), 20, 15, 33],
        (2,),
        lambda a, b, c, *sizes: a @ b.T,
    ),
    Case(
        "blas_gemm_half",
        "libraries",
        lambda d: [d.floats(16, 24, dtype=HALF), d.floats(24, 32, dtype=HALF), d.floats(16, 32), 16, 32, 24],
        (2,),
        lambda a, b, c, *sizes: 2 * a @ b + c,
    ),
    Case(
        "blas_batched",
        "libraries",
        lambda d: [d.floats(3, 10, 12), d.floats(3, 12, 17), fresh(3, 10, 17), 3, 10, 17, 12],
        (2,),
        lambda a, b, c, *sizes: a @ b,
    ),
    Case(
        "blas_gemv",
        "libraries",
        lambda d: [d.floats(14, 30), d.floats(30), fresh(14), 14, 30],
        (2,),
        lambda a, x, y, *sizes: a @ x,
    ),
    Case(
        "blas_linear_relu",
        "libraries",
        lambda d: [d.floats(12, 32), d.floats(16, 32), d.floats(16), fresh(12, 16), 12, 16, 32],
        (3,),
        lambda x, w, bias, y, *sizes: F.linear(x, w, bias).relu(),
    ),
    Case(
        "dnn_conv2d",
        "convolution",
        lambda d: [d.floats(2, 6, 11, 13), d.floats(4, 3, 3, 3), fresh(2, 4, 6, 7), 2, 6, 4, 11, 13, 3, 2, 2],
        (2,),
        lambda x, w, *rest: F.conv2d(x, w, stride=2, padding=1, groups=2),
    ),
)


def cases() -> tuple[Case, ...]:
    """Every case of this file."""
    return (*_LINEAR, *_LAYERS, *_LIBRARIES)
