"""Library steps in a plan: pointwise work that their epilogues take over, their precision, their notes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from warpsmith.optimizer.cuda_library import describe_library
from warpsmith.optimizer.ir import (
    Arena,
    Const,
    Define,
    Load,
    Op,
    Program,
    TensorRef,
    contiguous_strides,
    tensor_refs,
)
from warpsmith.optimizer.library import Conv, Gemm, Library, Math
from warpsmith.optimizer.pointwise import POINTWISE, Tensor


def with_math(step: Library, math: Math) -> Library:
    """The step with its float32 products computed as `math` says, unless that was decided already."""
    return step if step.spec.math is not Math.DEFAULT else replace(step, spec=replace(step.spec, math=math))


def library_name(step: Library, number: int) -> str:
    """A C++ name for a step."""
    operator = re.sub(r"\W", "_", step.label[1]).strip("_") if step.label else step.target
    return f"{operator}_{step.target}{number}"


def library_notes(steps: Sequence[Library], own: int) -> list[str]:
    """What the libraries compute; `own`: kernels of ours in the same plan."""
    notes = [describe_library(step) for step in steps]
    if steps and not own and all(map(_at_par, steps)):
        notes.append("library at par: this is the whole model, and PyTorch calls the same library")
    return notes


def _at_par(step: Library) -> bool:
    """Whether eager PyTorch does the same with one call."""
    if isinstance(step.spec, Conv):
        return not step.spec.depthwise
    return step.spec.activation == "" and step.spec.beta == 0


def with_epilogues(program: Program) -> None:
    """Let products take over scaling, bias, addend and activation where that is all that follows them.

    What follows otherwise stays in one tail kernel, which reads the product once whatever it computes: moving a part
    of it into the epilogue would save nothing.
    """
    for step in [s for s in program.steps if isinstance(s, Library) and isinstance(s.spec, Gemm)]:
        tail = only_reader(program, step)
        if tail is None:
            continue
        found = Tail(program, step, tail).epilogue()
        if found is None:
            continue
        at = program.steps.index(tail)
        program.steps[at] = found
        program.steps.remove(step)


def only_reader(program: Program, step: Library) -> Define | None:
    """The one pointwise step that reads the result, element by element."""
    (buf,) = step.outs
    if buf in {r.buf for r in tensor_refs(program.result)}:
        return None
    readers = []
    for other in program.steps:
        if isinstance(other, Define):
            reads = buf in {load.buf for load in program.arena.loads(other.expr)}
        else:
            reads = buf in {r.buf for r in tensor_refs((other.args, [v for _, v in other.kwargs]))}
        if reads:
            readers.append(other)
    if len(readers) != 1 or not isinstance(readers[0], Define) or readers[0].kind != "pointwise":
        return None
    return readers[0]


@dataclass(frozen=True, slots=True)
class _Sum:
    """alpha · product + beta · addend + bias."""

    alpha: float = 1.0
    beta: float = 0.0
    addend: Load | None = None
    bias: Load | None = None


class Tail:
    """Reads a tail as an epilogue of the product before it."""

    def __init__(self, program: Program, step: Library, tail: Define) -> None:
        assert isinstance(step.spec, Gemm)
        self.program, self.step, self.tail, self.spec = program, step, tail, step.spec
        self.arena: Arena = program.arena
        self.buf = step.outs[0]

    def epilogue(self) -> Library | None:
        """The product with the tail in it; None where the library does not offer that."""
        result = self.program.buffers[self.tail.buf]
        product = self.program.buffers[self.buf or ""]
        if result.dtype != self.spec.dtype or result.numel != product.numel:
            return None
        activation, inside = self.activation()
        found = self._sum(inside)
        if found is None:
            return None
        spec = replace(
            self.spec,
            alpha=self.spec.alpha * found.alpha,
            beta=found.beta,
            bias=found.bias is not None,
            activation=activation,
        )
        refs = list(self.step.refs)
        if found.bias is not None:
            refs.append(TensorRef(found.bias.buf, (self.spec.columns,), (1,), found.bias.offset))
        if found.addend is not None:
            refs.append(
                TensorRef(
                    found.addend.buf, product.shape, contiguous_strides(product.shape), found.addend.offset
                )
            )
        return replace(self.step, outs=(self.tail.buf,), args=tuple(refs), spec=spec)

    def activation(self) -> tuple[str, int]:
        """The activation that the tail ends with, and what it is applied to.

        An expression is built from each part of the tail and compared: equal expressions have equal ids.
        """
        root = self.tail.expr
        for inside in list(self.arena.walk(root)):
            if inside == root or self.arena.nodes[inside].kind != "f":
                continue
            if POINTWISE["relu"](self.arena, Tensor(inside)) == root:
                return "relu", inside
            if POINTWISE["gelu"](self.arena, Tensor(inside), approximate="tanh") == root:
                return "gelu", inside
        return "", root

    def _sum(self, at: int) -> _Sum | None:
        node = self.arena.nodes[at]
        if isinstance(node, Load):
            return _Sum() if node.buf == self.buf and self._whole(node) else None
        if not isinstance(node, Op):
            return None
        if node.name in ("mul", "div"):
            return self._scaled(node)
        if node.name == "add":
            left, right = node.args
            for inside, other in ((left, right), (right, left)):
                found = self._sum(inside)
                added = self.arena.nodes[other]
                if found is not None and isinstance(added, Load) and added.buf != self.buf:
                    return self._plus(found, added)
        return None

    def _scaled(self, node: Op) -> _Sum | None:
        left, right = (self.arena.nodes[a] for a in node.args)
        if isinstance(right, Const):
            inside, factor = node.args[0], right
        elif isinstance(left, Const) and node.name == "mul":
            inside, factor = node.args[1], left
        else:
            return None
        found = self._sum(inside)
        value = float(factor.value)
        if found is None or found.bias is not None or found.addend is not None or value == 0:
            return None
        return replace(found, alpha=found.alpha * value if node.name == "mul" else found.alpha / value)

    def _plus(self, found: _Sum, added: Load) -> _Sum | None:
        buffer = self.program.buffers[added.buf]
        if buffer.dtype != self.spec.dtype:
            return None
        if found.addend is None and self._whole(added):
            return replace(found, addend=added, beta=1.0)
        if found.bias is None and self._along_columns(added):
            return replace(found, bias=added)
        return None

    def _whole(self, load: Load) -> bool:
        """Whether the load walks a buffer in the result's own order."""
        return load.strides == contiguous_strides(self.tail.sizes)

    def _along_columns(self, load: Load) -> bool:
        """Whether the load is a contiguous vector over the columns."""
        sizes, strides = self.tail.sizes, load.strides
        inner = 1
        plain = contiguous_strides(sizes)
        for size, stride, whole in zip(reversed(sizes), reversed(strides), reversed(plain), strict=True):
            if inner == self.spec.columns:
                if stride:
                    return False
            elif stride != whole:
                return False
            else:
                inner *= size
        return inner == self.spec.columns
