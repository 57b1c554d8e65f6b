"""Large float32 products as three TF32 products of halves: nearly float32's accuracy at the tensor cores' speed.

x = h + l, h with the 11 leading bits of x (what TF32 holds) and l the exact rest. A · B is computed as
Ah · Bh + (Ah · Bl + Al · Bh), the small terms first; what is dropped, Al · Bl, is 2⁻²² of the product. The tensor
cores cut their sums off, so that the error is above float32's: measured on an H200 at 4096³, 9.6e-6 against 2.9e-4
for TF32 and 1.2e-6 for float32.

h is rounded by its bits. Veltkamp's way, c = fl(8193 · x) and h = fl(c - fl(c - x)), does not survive nvcc, which
contracts the product into the outer subtraction: h is x itself then, and on an H200 three products were as inexact as
one.

An infinity times the zero half of the other side is NaN: where float32 gives an infinity for an infinite input, this
may give NaN. Finite inputs give what float32 gives.
"""

from __future__ import annotations

from dataclasses import replace

from warpsmith.optimizer.ir import Arena, Buffer, Define, Load, Program, TensorRef, contiguous_strides
from warpsmith.optimizer.library import Gemm, Library, Math, Operand, is_large

LARGEST = 1e30
"""Above this, for infinities and for NaN, the first half is x itself and the second zero: rounding may overflow."""


def split_products(program: Program) -> None:
    """Replace each large float32 product by three."""
    split = _Splitter(program)
    for step in list(program.steps):
        if isinstance(step, Library) and isinstance(step.spec, Gemm) and is_large(step.spec):
            at = program.steps.index(step)
            program.steps[at : at + 1] = split.three(step)


class _Splitter:
    def __init__(self, program: Program) -> None:
        self.program, self.arena = program, program.arena
        self.known: dict[tuple[TensorRef, Operand], tuple[TensorRef, TensorRef, Operand]] = {}
        self.made = 0

    def three(self, step: Library) -> list[Define | Library]:
        """The steps instead of one; the last has the epilogue, the first takes the addend."""
        spec = step.spec
        assert isinstance(spec, Gemm)
        out: list[Define | Library] = []
        left_high, left_low, left = self._halves(step.refs[0], spec.left, out, step)
        right_high, right_low, right = self._halves(step.refs[1], spec.right, out, step)
        given = step.refs[2:]
        bias, addend = given[: int(spec.bias)], given[int(spec.bias) :]
        plain = replace(spec, left=left, right=right, bias=False, activation="", math=Math.TF32)
        first = self._product(step, plain, [left_low, right_high, *addend])
        more = replace(plain, beta=1.0)
        second = self._product(step, more, [left_high, right_low, self._ref(first)])
        last = replace(more, bias=spec.bias, activation=spec.activation)
        refs = (left_high, right_high, *bias, self._ref(second))
        return [*out, first, second, replace(step, spec=last, args=refs)]

    def _product(self, step: Library, spec: Gemm, refs: list[TensorRef]) -> Library:
        (name,) = step.outs
        buffer = self._buffer(self.program.buffers[name or ""].shape)
        return replace(step, outs=(buffer.name,), args=tuple(refs), spec=spec)

    def _ref(self, step: Library) -> TensorRef:
        (name,) = step.outs
        buffer = self.program.buffers[name or ""]
        return TensorRef(buffer.name, buffer.shape, contiguous_strides(buffer.shape), 0)

    def _buffer(self, shape: tuple[int, ...]) -> Buffer:
        buffer = Buffer(f"half{self.made}", shape, "float32", "temp")
        self.made += 1
        self.program.buffers[buffer.name] = buffer
        return buffer

    def _halves(
        self, ref: TensorRef, side: Operand, out: list[Define | Library], step: Library
    ) -> tuple[TensorRef, TensorRef, Operand]:
        """Both halves of an operand in its own memory order, computed once for all products that read it."""
        key = (ref, side)
        if key not in self.known:
            shape, strides = ref.shape[-2:], ref.strides[-2:]
            if side.transposed:
                shape, strides = shape[::-1], strides[::-1]
            size = shape[0] * shape[1]
            if side.step:
                shape, strides = (ref.shape[0], *shape), (side.step, *strides)
            load = self.arena.add(Load(ref.buf, ref.offset, strides))
            halves = []
            for expr in split_terms(self.arena, load):
                buffer = self._buffer(shape)
                mask = (False,) * len(shape)
                out.append(Define(buffer.name, "pointwise", shape, mask, expr, step.label))
                halves.append(TensorRef(buffer.name, shape, contiguous_strides(shape), 0))
            at = Operand(side.transposed, shape[-1], size if side.step else 0)
            self.known[key] = (halves[0], halves[1], at)
        return self.known[key]


def split_terms(arena: Arena, x: int) -> tuple[int, int]:
    """Expressions for the leading 11 bits of `x` and for the rest, which is exact."""
    high = arena.op("leading_bits", x)
    fits = arena.op("lt", arena.op("abs", x), arena.const(LARGEST), kind="b")
    rest = arena.op("sub", x, high)
    return arena.op("where", fits, high, x), arena.op("where", fits, rest, arena.const(0.0))
