"""Long rows: reductions in two stages over many blocks, so that every pass streams and none is serial.

A row of C elements is cut into S chunks. One kernel reduces each chunk, a small one combines the chunks' results, and
what needs whole rows (the normalised output) runs as a pointwise kernel. Softmax's sum and a variance follow their
chunk's own maximum and mean, so that the chunk is read once, and are corrected when chunks are combined.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, inf, prod

from warpsmith.optimizer.fuse import Item, Kernel, row_strides
from warpsmith.optimizer.ir import Arena, Buffer, Const, Iota, Load, Op, Program, kind_of
from warpsmith.optimizer.views import refine_expr

MULTIPROCESSORS = 132
MAX_ROW = 32768
"""Longest row that one block keeps in registers, lanes along the row."""
MAX_COLUMN = 1024
"""The same where lanes run across rows."""
ROW_CHUNK, COLUMN_CHUNK = 8192, 256
REALIGN_ELEMENTS = 1 << 22
"""A second stage costs a launch: smaller tensors are reduced at the alignment that they have."""


def levels(arena: Arena, kernel: Kernel) -> dict[str, int]:
    """For each reduction how many reductions deep it is: those of one level share a pass over the row."""
    found: dict[str, int] = {}
    for item in kernel.items:
        if item.is_reduction:
            below = [found[n.buf] for n in arena.loads(item.expr) if n.buf in found]
            found[item.buf] = 1 + max(below, default=0)
    return found


def along_rows(kernel: Kernel) -> bool:
    """Whether the innermost factor is reduced: lanes then run along the row."""
    return bool(kernel.mask) and kernel.mask[-1]


def keeps_row(arena: Arena, kernel: Kernel) -> bool:
    """Whether the kernel passes over its rows more than once."""
    return max(levels(arena, kernel).values(), default=0) > 1 or any(
        i.scope == "element" for i in kernel.items if not i.is_reduction
    )


def split_long_rows(program: Program, kernel: Kernel) -> list[Kernel]:
    """The kernel itself, or the kernels of its two-stage form where its rows are too long or too few."""
    if not any(i.is_reduction for i in kernel.items):
        return [kernel]
    arena = program.arena
    lanes = along_rows(kernel)
    if keeps_row(arena, kernel):
        limit = MAX_ROW if lanes else MAX_COLUMN
        few = kernel.rows < MULTIPROCESSORS and kernel.numel > 1 << 20 and kernel.length > 2048
        if kernel.length <= limit and not few:
            return [kernel]
        chunk = _chunk(kernel, ROW_CHUNK if lanes else COLUMN_CHUNK)
    else:
        shift = None if lanes else _realigning(kernel)
        if shift is not None:
            return _Split(program, kernel, kernel.length // shift, shift).kernels()
        chunk = _parallel_chunk(kernel, lanes)
    return [kernel] if chunk is None else _Split(program, kernel, chunk).kernels()


def _parallel_chunk(kernel: Kernel, lanes: bool) -> int | None:
    """A chunk for plain reductions of too few rows to fill the device."""
    if lanes:
        if kernel.rows >= 4 * MULTIPROCESSORS or kernel.length < 16384:
            return None
        wanted = max(4096, kernel.rows * kernel.length // (8 * MULTIPROCESSORS))
        return _chunk(kernel, min(wanted, kernel.length // 2))
    columns = kernel.rows // 4 if kernel.sizes[-1] % 4 == 0 else kernel.rows
    threads = columns * min(32, max(1, kernel.length // 8))
    if threads >= MULTIPROCESSORS * 2048 or kernel.length < 512:
        return None
    wanted = kernel.length * threads // (MULTIPROCESSORS * 2048)
    return _chunk(kernel, max(128, min(wanted, kernel.length // 2)))


def _realigning(kernel: Kernel) -> int | None:
    """Rows whose reduction is left to a second stage so that the first reads aligned vectors; None for none.

    Rows of 4095 floats begin at every alignment, but four of them together are 16380: the first stage reduces
    every fourth row, over columns of four rows side by side.
    """
    last = kernel.sizes[-1]
    shift = 4 // gcd(last, 4)
    rows = kernel.sizes[-2] if len(kernel.sizes) > 1 and kernel.mask[-2] else 0
    worth = kernel.numel >= REALIGN_ELEMENTS and kernel.length >= 64 * shift and last >= 64
    return shift if shift > 1 and rows and rows % shift == 0 and worth else None


def _chunk(kernel: Kernel, target: int) -> int | None:
    """The best chunk of at most `target` elements that cuts the reduced factors evenly; None if all are tiny."""
    found, inner = [], 1
    for size in reversed([s for s, m in zip(kernel.sizes, kernel.mask, strict=True) if m]):
        found += [inner * part for part in range(1, min(size, target // inner) + 1) if size % part == 0]
        inner *= size
    large = [c for c in found if c * 16 > target and 1 < c < kernel.length]
    return max(large, key=lambda c: (c % 4 == 0 and c * 4 > target, c), default=None)


@dataclass(frozen=True)
class _Stage:
    """An index space of the split kernel with the factors of a stage reduced."""

    sizes: tuple[int, ...]
    mask: tuple[bool, ...]


class _Split:
    def __init__(self, program: Program, kernel: Kernel, chunk: int, shift: int | None = None) -> None:
        self.program = program
        self.arena = program.arena
        self.chunk = chunk
        self.old = kernel
        self.sizes, self.inner = _cut(kernel, chunk) if shift is None else _cut_outer(kernel, shift)
        self.mask = tuple(_refine_mask(kernel, self.sizes))
        self.length = kernel.length
        items = [self._refined(i) for i in kernel.items]
        self.reductions = [i for i in items if i.is_reduction]
        self.others = [i for i in items if not i.is_reduction]
        outer = [(s, m) for s, m, inner in zip(self.sizes, self.mask, self.inner, strict=True) if not inner]
        self.final = _Stage(tuple(s for s, _ in outer), tuple(m for _, m in outer))

    def kernels(self) -> list[Kernel]:
        """Partial and combining kernels for each level, then what remains, pointwise."""
        out: list[Kernel] = []
        pending = list(self.reductions)
        others = list(self.others)
        while pending:
            waiting = {i.buf for i in pending}
            now = [i for i in pending if not waiting & self._reads(i)]
            pairs = {b.buf: self._pair(b, now) for b in pending if b not in now}
            pairs = {buf: pair for buf, pair in pairs.items() if pair}
            partial, final = self._level(now, [i for i in pending if i.buf in pairs], pairs)
            pending = [i for i in pending if i not in now and i.buf not in pairs]
            waiting = {i.buf for i in pending}
            ready = [o for o in others if o.scope == "row" and not waiting & self._reads(o)]
            others = [o for o in others if o not in ready]
            final += [self._outer_item(o) for o in ready]
            out.append(Kernel(self.sizes, self.inner, tuple(partial)))
            out.append(Kernel(self.final.sizes, self.final.mask, tuple(final)))
        if others:
            out.append(Kernel(self.sizes, (False,) * len(self.sizes), tuple(others)))
        return self._needed(out)

    def _needed(self, kernels: list[Kernel]) -> list[Kernel]:
        """The kernels, storing only what a later one reads or what was stored before the split."""
        stored = {i.buf for i in self.old.items if i.store}
        out: list[Kernel] = []
        for kernel in reversed(kernels):
            items = tuple(replace(i, store=i.buf in stored) for i in kernel.items)
            stored |= set().union(*(self._reads(i) for i in items))
            out.insert(0, replace(kernel, items=items))
        return out

    def _reads(self, item: Item) -> set[str]:
        return {n.buf for n in self.arena.loads(item.expr)}

    def _refined(self, item: Item) -> Item:
        expr = refine_expr(self.arena, item.expr, self.old.sizes, self.sizes)
        return Item(item.buf, item.kind, item.scope, expr, item.label, item.store or item.is_reduction)

    def _pair(self, item: Item, first: list[Item]) -> tuple[str, Item] | None:
        """("softmax", "logsumexp" or "variance", the maximum or sum that `item` follows), where it is such a pair."""
        if item.kind != "sum":
            return None
        for other in first:
            if other.kind == "max":
                shifts = {
                    "softmax": self._own(other),
                    "logsumexp": finite_or_zero(self.arena, self._own(other)),
                }
                for what, shift in shifts.items():
                    if item.expr == self._find("exp", self._find("sub", other.expr, shift)):
                        return what, other
            if other.kind == "sum":
                mean = self._find("div", self._own(other), self._constant(float(self.length)))
                centred = self._find("sub", other.expr, mean)
                if centred is not None and item.expr == self._find("mul", centred, centred):
                    return "variance", other
        return None

    def _own(self, item: Item) -> int:
        """The load of a reduction's result in this index space."""
        return self.arena.add(Load(item.buf, 0, row_strides(self.sizes, self.mask), self._kind(item)))

    def _kind(self, item: Item) -> str:
        return kind_of(self.program.buffers[item.buf].dtype)  # type: ignore[return-value]

    def _find(self, name: str, *args: int | None) -> int | None:
        return None if None in args else self.arena.op(name, *args)  # type: ignore[arg-type]

    def _constant(self, value: float) -> int:
        return self.arena.add(Const(value))

    def _level(
        self, now: list[Item], paired: list[Item], pairs: dict[str, tuple[str, Item]]
    ) -> tuple[list[Item], list[Item]]:
        partial: list[Item] = []
        final: list[Item] = []
        parts: dict[str, Item] = {}
        for item in now:
            expr, place = self._local_place(item.expr)
            part = parts[item.buf] = self._part(item, expr)
            partial.append(part)
            whole = self._part_load(part, True)
            if place is not None:
                whole = self.arena.op("sub", whole, place, kind="i")
            final.append(Item(item.buf, item.kind, "row", whole, item.label))
        for item in paired:
            what, first = pairs[item.buf]
            first_part = parts[first.buf]
            part = self._part(item, self._chunk_expr(what, first, first_part))
            partial.append(part)
            final.append(
                Item(item.buf, "sum", "row", self._combined(what, first, first_part, part), item.label)
            )
        return partial, final

    def _local_place(self, expr: int) -> tuple[int, int | None]:
        """An argmax's key with its place counted within the chunk, and the chunk's own place, which keys are less by.

        Without the chunk's place a key moves along the chunk alone, and columns side by side are one factor.
        """
        node = self.arena.nodes[expr]
        if not isinstance(node, Op) or node.name != "arg_key":
            return expr, None
        place = self.arena.nodes[node.args[1]]
        if not isinstance(place, Iota):
            return expr, None
        inside = tuple(s if inner else 0 for s, inner in zip(place.strides, self.inner, strict=True))
        outside = tuple(s for s, inner in zip(place.strides, self.inner, strict=True) if not inner)
        key = self.arena.op("arg_key", node.args[0], self.arena.add(Iota(place.offset, inside)), kind="i")
        return key, self.arena.add(Iota(0, outside))

    def _part(self, item: Item, expr: int) -> Item:
        shape = tuple(s for s, inner in zip(self.sizes, self.inner, strict=True) if not inner)
        name = f"{item.buf}_part"
        self.program.buffers[name] = Buffer(name, shape, self.program.buffers[item.buf].dtype, "temp")
        return Item(name, item.kind, "row", expr, item.label)

    def _part_load(self, part: Item, final: bool) -> int:
        """The chunk's result, in the combining kernel's index space or in the chunk kernel's."""
        space = (
            _Stage(self.final.sizes, (False,) * len(self.final.sizes))
            if final
            else _Stage(self.sizes, self.inner)
        )
        return self.arena.add(Load(part.buf, 0, row_strides(space.sizes, space.mask), self._kind(part)))

    def _chunk_expr(self, what: str, first: Item, part: Item) -> int:
        a, own = self.arena, self._part_load(part, False)
        if what != "variance":
            # a chunk that is -inf throughout adds nothing
            return a.op("exp", a.op("sub", first.expr, finite_or_zero(a, own)))
        centred = a.op("sub", first.expr, a.op("div", own, a.const(float(self.chunk))))
        return a.op("mul", centred, centred)

    def _combined(self, what: str, first: Item, first_part: Item, part: Item) -> int:
        a = self.arena
        whole = a.add(Load(first.buf, 0, row_strides(self.final.sizes, self.final.mask), self._kind(first)))
        peak, value = self._part_load(first_part, True), self._part_load(part, True)
        if what != "variance":
            shift = whole if what == "softmax" else finite_or_zero(a, whole)
            return a.op("mul", value, a.op("exp", a.op("sub", peak, shift)))
        shift = a.op(
            "sub",
            a.op("div", peak, a.const(float(self.chunk))),
            a.op("div", whole, a.const(float(self.length))),
        )
        return a.op("add", value, a.op("mul", a.op("mul", shift, shift), a.const(float(self.chunk))))

    def _outer_item(self, item: Item) -> Item:
        """A per-row item in the combining kernel's index space."""
        keep = [not inner for inner in self.inner]
        expr = self.arena.restride(
            item.expr, lambda o, s: (o, tuple(x for x, k in zip(s, keep, strict=True) if k))
        )
        return Item(item.buf, item.kind, item.scope, expr, item.label, item.store)


def finite_or_zero(arena: Arena, x: int) -> int:
    """`x`, or 0 where it is infinite: what a sum of exponentials is shifted by."""
    infinite = arena.op("eq", arena.op("abs", x), arena.const(inf), kind="b")
    return arena.op("where", infinite, arena.const(0.0), x)


def _cut(kernel: Kernel, chunk: int) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    """Factors with one reduced factor cut in two where the chunk ends, and which of them lie in the chunk."""
    sizes: list[int] = []
    inner: list[bool] = []
    left = chunk
    for size, masked in zip(reversed(kernel.sizes), reversed(kernel.mask), strict=True):
        if not masked or left == 1:
            sizes.append(size)
            inner.append(False)
        elif size <= left:
            sizes.append(size)
            inner.append(True)
            left //= size
        else:
            sizes += [left, size // left]
            inner += [True, False]
            left = 1
    return tuple(reversed(sizes)), tuple(reversed(inner))


def _cut_outer(kernel: Kernel, shift: int) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    """The last reduced factor cut in (size / shift, shift); all reduced factors but `shift` are the chunk."""
    *lead, rows, last = kernel.sizes
    inner = (*kernel.mask[:-2], True, False, False)
    return (*lead, rows // shift, shift, last), inner


def _refine_mask(kernel: Kernel, sizes: tuple[int, ...]) -> list[bool]:
    mask: list[bool] = []
    at = 0
    for size, masked in zip(kernel.sizes, kernel.mask, strict=True):
        have = 1
        while have < size:
            have *= sizes[at]
            mask.append(masked)
            at += 1
    assert prod(sizes) == kernel.numel
    return mask


def operators(arena: Arena, kernel: Kernel) -> list[tuple[str, str]]:
    """The captured operators that a kernel computes, each once, in order of first use."""
    found: dict[str, str] = {}
    for item in kernel.items:
        for at in arena.walk(item.expr):
            label = arena.labels[at]
            if label and isinstance(arena.nodes[at], Op):
                found.setdefault(*label)
        if item.label:
            found.setdefault(*item.label)
    return list(found.items())
