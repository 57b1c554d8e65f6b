"""Steps that are opaque to fusion: matrix products and convolutions, run by a vendor library from our launchers.

Depthwise convolutions are among them, and run by a kernel of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from warpsmith.optimizer.ir import Call, Program, TensorRef, Value, tensor_refs
from warpsmith.optimizer.lowering import Lowering

LIBRARY_DTYPES = frozenset({"float32", "float16", "bfloat16"})
MAX_TAPS, MAX_STRIDE = 64, 4
"""What a depthwise kernel of ours unrolls."""
SPLIT_FLOPS, SPLIT_SIDE = 1 << 30, 256
"""Least work, and least rows, columns and inner size, of a product that is worth splitting."""
CHOICES = 8
"""How many algorithms of a library's heuristic may be tried."""


class Math(StrEnum):
    """How float32 products are computed; half types are always summed in float32 on tensor cores."""

    DEFAULT = "default"
    """As PyTorch's flags are when nobody touches them: TF32 in convolutions, not in matrix products."""
    STRICT = "strict"
    TF32 = "tf32"
    SPLIT = "split"
    """Large products as three in TF32 (`split_products`), the rest as by default."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix in memory: row-major with rows `leading` elements apart, or `transposed`: columns that far apart.

    `step`: elements from one matrix of a batch to the next, 0 where all share one.
    """

    transposed: bool
    leading: int
    step: int


@dataclass(frozen=True, slots=True)
class Gemm:
    """out = act(alpha · left[rows, inner] · right[inner, columns] + beta · addend + bias), for each of `batches`.

    The step's arguments are left, right, then the bias (a vector over columns) and the addend where there are such.
    """

    rows: int
    columns: int
    inner: int
    batches: int
    dtype: str
    left: Operand
    right: Operand
    alpha: float = 1.0
    beta: float = 0.0
    bias: bool = False
    activation: str = ""
    """"", "relu" or "gelu" (the tanh approximation)."""
    math: Math = Math.DEFAULT
    choice: int = 0

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.rows * self.columns * self.inner * self.batches


@dataclass(frozen=True, slots=True)
class Conv:
    """A convolution (cross-correlation) of `sizes` by `filter` into `out`; all in the order N, C, then space.

    `transposed`: the gradient of such a convolution with respect to its input, as `conv_transpose` computes; then
    `sizes` is what the step reads and `out` what it writes all the same. `parts`: how many times the library is
    called, each time on the next N of a batch that is too large for its descriptors.
    """

    sizes: tuple[int, ...]
    filter: tuple[int, ...]
    out: tuple[int, ...]
    padding: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    dtype: str
    transposed: bool = False
    parts: int = 1
    math: Math = Math.DEFAULT
    choice: int = 0

    @property
    def depthwise(self) -> bool:
        """Whether a kernel of ours runs it: each output channel reads one input channel, with few taps."""
        taps = self.filter[2:]
        single = self.filter[1] == 1 and 1 < self.groups == self.sizes[1] and self.parts == 1
        small = len(taps) == 2 and taps[0] * taps[1] <= MAX_TAPS and taps[1] * self.dilation[1] <= MAX_TAPS
        return single and small and not self.transposed and max(self.stride) <= MAX_STRIDE

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        taps = self.parts
        for size in self.filter[1:]:
            taps *= size
        places = 1
        for size in self.sizes if self.transposed else self.out:
            places *= size
        return 2 * taps * places


@dataclass(frozen=True, slots=True)
class Library(Call):
    """A call of cuBLASLt or cuDNN that writes one contiguous buffer; its arguments are TensorRefs."""

    spec: Gemm | Conv
    label: tuple[str, str] | None = None
    name: str = ""

    @property
    def refs(self) -> list[TensorRef]:
        """What it reads."""
        return list(tensor_refs(self.args))


def in_buffer(lo: Lowering, value: Value) -> Value:
    """`value` as a contiguous buffer; computing it is no part of the operator that reads it."""
    label, lo.arena.label = lo.arena.label, None
    try:
        return lo.stored(value)
    finally:
        lo.arena.label = label


def library_step(lo: Lowering, shape: Sequence[int], spec: Gemm | Conv, refs: Sequence[TensorRef]) -> Value:
    """Append a step that writes a new buffer of `shape`; returns the buffer's value."""
    buffer = lo.new_buffer(shape, spec.dtype)
    kind = "gemm" if isinstance(spec, Gemm) else "conv"
    step = Library((buffer.name,), False, kind, tuple(refs), (), spec, lo.arena.label)
    lo.program.steps.append(step)
    return lo.load(buffer)


def step_buffers(program: Program, step: Library) -> tuple[list[str], list[str]]:
    """Buffers that the step writes and reads."""
    return [n for n in step.outs if n], list(dict.fromkeys(r.buf for r in step.refs))


def is_large(spec: Gemm) -> bool:
    """Whether a float32 product is worth three in TF32: its operands are written anew, its result three times."""
    sides = min(spec.rows, spec.columns, spec.inner)
    return spec.dtype == "float32" and spec.flops >= SPLIT_FLOPS and sides >= SPLIT_SIDE


def menu(specs: Sequence[Gemm | Conv], math: Math) -> tuple[Math, ...]:
    """Ways to compute these that differ from `math`, in the order in which they are worth trying."""
    singles = [s for s in specs if s.dtype == "float32"]
    gemms = any(isinstance(s, Gemm) for s in singles)
    large = any(isinstance(s, Gemm) and is_large(s) for s in singles)
    convs = any(isinstance(s, Conv) and not s.depthwise for s in singles)

    def effect(of: Math) -> tuple[bool, bool, bool]:
        return gemms and of is Math.TF32, large and of is Math.SPLIT, convs and of is not Math.STRICT

    found: dict[tuple[bool, bool, bool], Math] = {effect(math): math}
    for other in (Math.SPLIT, Math.TF32, Math.DEFAULT, Math.STRICT):
        found.setdefault(effect(other), other)
    return tuple(m for m in found.values() if m is not math)
