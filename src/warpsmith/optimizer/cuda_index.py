"""Index arithmetic: where in a buffer an iteration's elements lie, and how wide they may be loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from warpsmith.optimizer.fuse import Item, Kernel
from warpsmith.optimizer.ir import Arena, Buffer, Iota, Load, contiguous_strides

STREAM_BYTES = 64 << 20
"""Tensors above this do not fit the L2 cache beside others and are read and written with streaming hints."""


def collapse(arena: Arena, kernel: Kernel) -> Kernel:
    """The same kernel with adjacent factors merged wherever every access moves through both alike."""
    nodes = list(
        {
            n
            for i in kernel.items
            for at in arena.walk(i.expr)
            if isinstance(n := arena.nodes[at], Load | Iota)
        }
    )
    sizes, mask = kernel.sizes, kernel.mask
    drop: list[int] = []
    out: list[tuple[int, bool]] = []
    for at, (size, masked) in enumerate(zip(sizes, mask, strict=True)):
        joins = (
            at and mask[at - 1] == masked and all(n.strides[at - 1] == n.strides[at] * size for n in nodes)
        )
        if joins:
            drop.append(at - 1)
            out[-1] = (out[-1][0] * size, masked)
        else:
            out.append((size, masked))
    gone = set(drop)
    items = []
    for i in kernel.items:
        expr = arena.restride(i.expr, lambda o, s: (o, tuple(x for k, x in enumerate(s) if k not in gone)))
        items.append(Item(i.buf, i.kind, i.scope, expr, i.label, i.store))
    return Kernel(tuple(s for s, _ in out), tuple(m for _, m in out), tuple(items))


def index_type(arena: Arena, kernel: Kernel, buffers: dict[str, Buffer]) -> str:
    """The narrowest type that holds every element index of the kernel."""
    rows = any(i.is_reduction for i in kernel.items)
    largest, negative = max(kernel.rows, kernel.length) if rows else kernel.numel, False
    for item in kernel.items:
        if item.buf in buffers:
            largest = max(largest, buffers[item.buf].numel)
        for at in arena.walk(item.expr):
            node = arena.nodes[at]
            if isinstance(node, Load) and node.buf in buffers:
                largest = max(largest, buffers[node.buf].numel)
            if isinstance(node, Iota):
                reach = sum(abs(t) * (n - 1) for t, n in zip(node.strides, kernel.sizes, strict=True))
                largest = max(largest, reach + 1)
            if isinstance(node, Load | Iota):
                negative |= any(s < 0 for s in node.strides)
    return "long long" if negative or largest >= (1 << 32) - (1 << 24) else "unsigned"


@dataclass(frozen=True)
class Axis:
    """One loop variable over some factors: `var` counts vectors of `vec` elements of the innermost factor."""

    var: str
    sizes: tuple[int, ...]
    vec: int = 1

    def coordinates(self, needed: Sequence[int], ctype: str) -> list[str]:
        """Declarations of `<var>_k`, the index along factor k (in vectors for the last one), for `needed` factors."""
        lines = []
        counts = (*self.sizes[:-1], self.sizes[-1] // self.vec) if self.sizes else ()
        inner = contiguous_strides(counts)
        suffix = "u" if ctype == "unsigned" else ""
        for k in sorted(needed):
            text = self.var if inner[k] == 1 else f"{self.var} / {inner[k]}{suffix}"
            if k:
                text = f"({text}) % {counts[k]}{suffix}" if inner[k] != 1 else f"{text} % {counts[k]}{suffix}"
            lines.append(f"const {ctype} {self.var}_{k} = {text};")
        return lines

    def is_linear(self, strides: Sequence[int]) -> bool:
        """Whether the strides walk memory in this axis's own order."""
        return tuple(strides) == contiguous_strides(self.sizes)

    def offset(self, strides: Sequence[int], ctype: str) -> tuple[str, set[int]]:
        """Element offset as text (empty for none), and the coordinates it uses."""
        suffix = "u" if ctype == "unsigned" else ""
        if not any(strides):
            return "", set()
        if self.is_linear(strides):
            return self.var if self.vec == 1 else f"{self.var} * {self.vec}{suffix}", set()
        if len(self.sizes) == 1:
            return f"{self.var} * {strides[0] * self.vec}{suffix if strides[0] > 0 else ''}", set()
        terms, used = [], set()
        for k, stride in enumerate(strides):
            if stride:
                step = stride * (self.vec if k == len(self.sizes) - 1 else 1)
                term = (
                    f"{self.var}_{k}" if step == 1 else f"{self.var}_{k} * {step}{suffix if step > 0 else ''}"
                )
                terms.append(term)
                used.add(k)
        return " + ".join(terms), used


def vectors(load: Load, strides: Sequence[int], vec: int) -> bool:
    """Whether `vec` neighbours are one aligned load; `strides`: along the axis whose last factor is walked."""
    return (
        bool(strides)
        and strides[-1] == 1
        and load.offset % vec == 0
        and all(s % vec == 0 for s in load.strides if s != 1)
        and sum(s == 1 for s in load.strides) == 1
    )


def touches(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """How many elements a load touches over an index space."""
    return prod(s for s, st in zip(sizes, strides, strict=True) if st)
