"""Views as arithmetic on factors and strides: nothing here moves memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from warpsmith.optimizer.ir import Arena, Iota, Load, NotRepresentableError, Value


def cuts(sizes: Sequence[int]) -> list[int]:
    """Products of the trailing factors, smallest first: where an index space may be cut."""
    found, step = [], 1
    for size in reversed(sizes):
        step *= size
        found.append(step)
    return found


def common_refinement(left: Sequence[int], right: Sequence[int]) -> tuple[int, ...] | None:
    """The coarsest factors that refine both (equal products); None where no such factors exist."""
    if prod(left) != prod(right):
        return None
    marks = sorted({c for c in (*cuts(left), *cuts(right)) if c > 1})
    factors, last = [], 1
    for mark in marks:
        if mark % last:
            return None
        factors.append(mark // last)
        last = mark
    return tuple(reversed(factors))


def split_counts(coarse: Sequence[int], fine: Sequence[int]) -> list[int]:
    """How many consecutive factors of `fine` make up each factor of `coarse`."""
    counts, at = [], 0
    for size in coarse:
        start, have = at, 1
        while have < size:
            have *= fine[at]
            at += 1
        if have != size:
            raise NotRepresentableError("factors do not refine")
        counts.append(at - start)
    return counts


def refine_expr(arena: Arena, expr: int, coarse: tuple[int, ...], fine: tuple[int, ...]) -> int:
    """`expr` over `coarse` factors, as an expression over `fine` ones."""
    if coarse == fine:
        return expr
    counts = split_counts(coarse, fine)

    def move(offset: int, strides: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        out: list[int] = []
        at = 0
        for count, stride in zip(counts, strides, strict=True):
            part = fine[at : at + count]
            out += [stride * prod(part[i + 1 :]) for i in range(count)]
            at += count
        return offset, tuple(out)

    return arena.restride(expr, move)


def with_dims(arena: Arena, value: Value, dims: Sequence[Sequence[int]]) -> Value:
    """The same value with finer factors in each logical dimension."""
    fine = tuple(tuple(d) for d in dims)
    flat = tuple(f for d in fine for f in d)
    return Value(fine, refine_expr(arena, value.expr, value.sizes, flat), value.dtype)


def coalesced(arena: Arena, value: Value) -> Value:
    """The same value with the factors of each logical dimension merged where all its loads allow."""
    dims = []
    nodes = [n for at in arena.walk(value.expr) if isinstance(n := arena.nodes[at], Load | Iota)]
    drop: list[int] = []
    at = 0
    for dim in value.dims:
        merged: list[int] = []
        for size in dim:
            can = merged and all(n.strides[at - 1] == n.strides[at] * size for n in nodes)
            if can:
                merged[-1] *= size
                drop.append(at - 1)
            else:
                merged.append(size)
            at += 1
        dims.append(tuple(merged))
    gone = set(drop)
    expr = arena.restride(value.expr, lambda o, s: (o, tuple(x for i, x in enumerate(s) if i not in gone)))
    return Value(tuple(dims), expr, value.dtype)


def reshape(arena: Arena, value: Value, shape: Sequence[int]) -> Value:
    """Row-major reshape. Raises NotRepresentableError where the factors clash (the caller then materialises)."""
    target = tuple(s for s in shape if s > 1)
    fine = common_refinement(value.sizes, target)
    if fine is None:
        value = coalesced(arena, value)
        fine = common_refinement(value.sizes, target)
    if fine is None:
        raise NotRepresentableError("a reshape across factors")
    counts = iter(split_counts(target, fine))
    dims, at = [], 0
    for size in shape:
        count = next(counts) if size > 1 else 0
        dims.append(fine[at : at + count])
        at += count
    return Value(tuple(dims), refine_expr(arena, value.expr, value.sizes, fine), value.dtype)


def permute(arena: Arena, value: Value, order: Sequence[int]) -> Value:
    """Logical dimensions in another order."""
    starts, at = [], 0
    for dim in value.dims:
        starts.append(at)
        at += len(dim)
    index = [starts[d] + i for d in order for i in range(len(value.dims[d]))]
    expr = arena.restride(value.expr, lambda o, s: (o, tuple(s[i] for i in index)))
    return Value(tuple(value.dims[d] for d in order), expr, value.dtype)


def expand(arena: Arena, value: Value, shape: Sequence[int]) -> Value:
    """Broadcast to `shape` (-1 keeps a dimension); new dimensions come first."""
    lead = len(shape) - len(value.dims)
    dims: list[tuple[int, ...]] = []
    keep: list[bool] = []
    for i, size in enumerate(shape):
        have = value.dims[i - lead] if i >= lead else ()
        if have and size in (-1, prod(have)):
            dims.append(have)
            keep += [True] * len(have)
        elif have:
            raise NotRepresentableError("shapes do not broadcast")
        elif size in (-1, 1):
            dims.append(())
        else:
            dims.append((size,))
            keep.append(False)

    def move(offset: int, strides: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        old = iter(strides)
        return offset, tuple(next(old) if k else 0 for k in keep)

    return Value(tuple(dims), arena.restride(value.expr, move), value.dtype)


def take(arena: Arena, value: Value, dim: int, start: int, length: int, step: int = 1) -> Value:
    """`length` elements of one dimension from `start`, `step` apart (may be negative)."""
    if value.shape[dim] == 1:
        return value
    if len(value.dims[dim]) > 1:
        value = coalesced(arena, value)
    at = sum(len(d) for d in value.dims[:dim])
    width = len(value.dims[dim])
    if width > 1:
        if length > 1:
            raise NotRepresentableError("a slice of a reshaped dimension")
        inner = [prod(value.dims[dim][i + 1 :]) for i in range(width)]
        place = [start // inner[i] % value.dims[dim][i] for i in range(width)]
    else:
        place = [start]

    def move(offset: int, strides: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        here = strides[at : at + width]
        offset += sum(p * s for p, s in zip(place, here, strict=True))
        middle = () if length == 1 else (here[0] * step,)
        return offset, strides[:at] + middle + strides[at + width :]

    dims = (*value.dims[:dim], () if length == 1 else (length,), *value.dims[dim + 1 :])
    return Value(dims, arena.restride(value.expr, move), value.dtype)


def squeeze(value: Value, dims: Sequence[int]) -> Value:
    """Drop logical dimensions of size 1; others named in `dims` stay."""
    kept = tuple(d for i, d in enumerate(value.dims) if not (i in dims and not d))
    return Value(kept, value.expr, value.dtype)


def unsqueeze(value: Value, dim: int) -> Value:
    """A new logical dimension of size 1."""
    return Value((*value.dims[:dim], (), *value.dims[dim:]), value.expr, value.dtype)


def align(arena: Arena, values: Sequence[Value]) -> tuple[tuple[tuple[int, ...], ...], list[int]]:
    """Broadcast values together: the common dims and each value's expression over them."""
    rank = max(len(v.dims) for v in values)
    full = [Value((((),) * (rank - len(v.dims))) + v.dims, v.expr, v.dtype) for v in values]
    dims: list[tuple[int, ...]] = []
    for i in range(rank):
        fine: tuple[int, ...] = ()
        for v in full:
            if not v.dims[i]:
                continue
            joined = common_refinement(fine, v.dims[i]) if fine else v.dims[i]
            if joined is None:
                raise NotRepresentableError("factors clash")
            fine = joined
        dims.append(fine)
    exprs = []
    for v in full:
        refined = with_dims(arena, v, [d if v.dims[i] else () for i, d in enumerate(dims)])
        keep = [bool(v.dims[i]) for i, d in enumerate(dims) for _ in d]

        def move(
            offset: int, strides: tuple[int, ...], keep: list[bool] = keep
        ) -> tuple[int, tuple[int, ...]]:
            old = iter(strides)
            return offset, tuple(next(old) if k else 0 for k in keep)

        exprs.append(arena.restride(refined.expr, move))
    return tuple(dims), exprs
