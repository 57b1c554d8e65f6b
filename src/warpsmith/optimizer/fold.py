"""Weights folded ahead of the forward pass: per-column scale and shift after a product, and work on weights alone.

`(x · W) · s + t`, with s and t made of parameters, is `x · (W · s) + t`: exact in real arithmetic, and in float32 off
by one more rounding of each weight. Inference BatchNorm is such a pair. It is done only where nothing of the tail is
left for a kernel of its own: otherwise that kernel reads the product anyway and gets scale and shift for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from warpsmith.optimizer.cuda_text import kernel_buffers
from warpsmith.optimizer.ir import (
    Call,
    Define,
    Iota,
    Load,
    Op,
    Program,
    TensorRef,
    contiguous_strides,
    tensor_refs,
)
from warpsmith.optimizer.library import Gemm, Library, Operand, step_buffers
from warpsmith.optimizer.library_plan import Tail, only_reader
from warpsmith.optimizer.plan import Launch


def fold_affine(program: Program) -> None:
    """Fold scale and shift into weights and bias where that leaves no tail. Adds steps that read parameters alone."""
    for step in [s for s in program.steps if isinstance(s, Library) and isinstance(s.spec, Gemm)]:
        tail = only_reader(program, step)
        if tail is None or step.spec.dtype != "float32" or step.spec.batches != 1 or len(step.refs) != 2:
            continue
        weight = step.refs[1]
        if program.buffers[weight.buf].role != "state":
            continue
        folded = _Fold(program, step, tail).steps()
        if folded is None:
            continue
        program.steps.remove(step)
        at = program.steps.index(tail)
        program.steps[at : at + 1] = folded
        what = step.label[1] if step.label else "matmul"
        program.notes.append(f"scale and shift after {what} folded into its weights by prepare()")


class _Fold:
    def __init__(self, program: Program, step: Library, tail: Define) -> None:
        assert isinstance(step.spec, Gemm)
        self.program, self.step, self.tail = program, step, tail
        self.arena, self.spec = program.arena, step.spec
        self.lead = _leading(tail.sizes, step.spec.columns)

    def steps(self) -> list[Define | Call] | None:
        """The folded weights, the folded bias and the product that reads them; None where that is not the tail."""
        result, product = (self.program.buffers[b] for b in (self.tail.buf, self.step.outs[0] or ""))
        if self.lead is None or result.dtype != "float32" or result.numel != product.numel:
            return None
        activation, inside = Tail(self.program, self.step, self.tail).activation()
        found = self._affine(inside)
        if found is None:
            return None
        scale, shift = found
        out: list[Define | Call] = []
        spec, refs = replace(self.spec, activation=activation), list(self.step.refs)
        columns = self.tail.sizes[self.lead :]
        if scale is not None:
            define, refs[1], side = self._weights(self._over_columns(scale), columns)
            out.append(define)
            spec = replace(spec, right=side)
        if shift is not None:
            define = self._define((self.spec.columns,), columns, self._over_columns(shift))
            out.append(define)
            refs.append(TensorRef(define.buf, (self.spec.columns,), (1,), 0))
            spec = replace(spec, bias=True)
        return [*out, replace(self.step, outs=(self.tail.buf,), args=tuple(refs), spec=spec)]

    def _affine(self, at: int) -> tuple[int | None, int | None] | None:
        """(scale, shift) with `at` = scale · product + shift; None inside for 1 and 0."""
        node = self.arena.nodes[at]
        if isinstance(node, Load):
            whole = node.strides == contiguous_strides(self.tail.sizes) and not node.offset
            return (None, None) if node.buf == self.step.outs[0] and whole else None
        if not isinstance(node, Op) or node.name not in ("add", "sub", "mul", "div", "neg"):
            return None
        if node.name == "neg":
            found = self._affine(node.args[0])
            return None if found is None else self._times(found, self.arena.const(-1.0), "mul")
        left, right = node.args
        found = self._affine(left)
        if found is not None and self._of_columns(right):
            if node.name in ("mul", "div"):
                return self._times(found, right, node.name)
            return found[0], self._joined(node.name, found[1], right)
        found = self._affine(right)
        if found is None or not self._of_columns(left):
            return None
        if node.name == "mul":
            return self._times(found, left, "mul")
        if node.name == "add":
            return found[0], self._joined("add", found[1], left)
        if node.name == "sub":
            scale, shift = self._times(found, self.arena.const(-1.0), "mul")
            return scale, self._joined("add", shift, left)
        return None

    def _times(
        self, found: tuple[int | None, int | None], factor: int, name: str
    ) -> tuple[int | None, int | None]:
        scale, shift = found
        one = self.arena.const(1.0)
        return (
            self.arena.op(name, one if scale is None else scale, factor),
            None if shift is None else self.arena.op(name, shift, factor),
        )

    def _joined(self, name: str, shift: int | None, other: int) -> int:
        if shift is not None:
            return self.arena.op(name, shift, other)
        return other if name == "add" else self.arena.op("neg", other)

    def _of_columns(self, at: int) -> bool:
        """Whether an expression is made of parameters and changes along the columns alone."""
        assert self.lead is not None
        for i in self.arena.walk(at):
            node = self.arena.nodes[i]
            if node.kind != "f":
                return False
            if isinstance(node, Load | Iota) and any(node.strides[: self.lead]):
                return False
            if isinstance(node, Load) and (node.offset < 0 or self.program.buffers[node.buf].role != "state"):
                return False
        return True

    def _over_columns(self, at: int) -> int:
        lead = self.lead
        return self.arena.restride(at, lambda o, s: (o, s[lead:]))

    def _weights(self, scale: int, columns: tuple[int, ...]) -> tuple[Define, TensorRef, Operand]:
        """The weights times the scale of their column, in the order in which they lay."""
        weight, side = self.step.refs[1], self.spec.right
        steps = contiguous_strides(columns)
        if side.transposed:
            sizes, shape = (*columns, self.spec.inner), (self.spec.columns, self.spec.inner)
            strides = (*(s * side.leading for s in steps), 1)
            spread = self.arena.restride(scale, lambda o, s: (o, (*s, 0)))
        else:
            sizes, shape = (self.spec.inner, *columns), (self.spec.inner, self.spec.columns)
            strides = (side.leading, *steps)
            spread = self.arena.restride(scale, lambda o, s: (o, (0, *s)))
        load = self.arena.add(Load(weight.buf, weight.offset, strides))
        define = self._define(shape, sizes, self.arena.op("mul", load, spread))
        ref = TensorRef(define.buf, shape, contiguous_strides(shape), 0)
        return define, ref, Operand(side.transposed, shape[1], 0)

    def _define(self, shape: tuple[int, ...], sizes: tuple[int, ...], expr: int) -> Define:
        name = f"folded{sum(b.startswith('folded') for b in self.program.buffers)}"
        self.program.buffers[name] = replace(
            self.program.buffers[self.tail.buf], name=name, shape=shape, role="temp", code=""
        )
        return Define(name, "pointwise", sizes, (False,) * len(sizes), expr, self.step.label)


def _leading(sizes: Sequence[int], columns: int) -> int | None:
    """How many factors come before those that make up the columns."""
    for lead in range(len(sizes), -1, -1):
        if prod(sizes[lead:]) == columns:
            return lead
    return None


def weights_alone(
    program: Program, steps: Sequence[Launch | Call]
) -> tuple[list[Launch | Library], list[Launch | Call]]:
    """(steps that read parameters and constants alone, the rest): the first need not run in forward."""
    ready = {b.name for b in program.buffers.values() if b.role == "state"}
    # a result is written anew by every call
    returned = {r.buf for r in tensor_refs(program.result)}
    ahead: list[Launch | Library] = []
    rest: list[Launch | Call] = []
    for step in steps:
        if isinstance(step, Library):
            outs, ins = step_buffers(program, step)
        elif isinstance(step, Launch):
            outs, ins = kernel_buffers(program, step.kernel)
        else:
            rest.append(step)
            continue
        if ins and ready.issuperset(ins) and not returned.intersection(outs):
            ready.update(outs)
            ahead.append(step)
        else:
            rest.append(step)
    return ahead, rest


def may_fold(program: Program, steps: Sequence[Launch | Call]) -> bool:
    """Whether it is worth asking for a folded form: work on weights alone, or one tail behind a product with them."""
    if weights_alone(program, steps)[0]:
        return True
    for step in steps:
        if isinstance(step, Library) and isinstance(step.spec, Gemm) and step.spec.dtype == "float32":
            weight = program.buffers[step.refs[1].buf]
            if weight.role == "state" and len(step.refs) == 2 and only_reader(program, step) is not None:
                return True
    return False
