"""PyTorch's view operators on values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from warpsmith.optimizer import views
from warpsmith.optimizer.ir import NotRepresentableError, Value
from warpsmith.optimizer.lowering import Lowering


def _same(lo: Lowering, self: Value, **_: object) -> Value:
    return self


def _reshape(
    lo: Lowering, self: Value, size: Sequence[int] | None = None, shape: Sequence[int] | None = None
) -> Value:
    target = list(size if size is not None else shape or ())
    total = prod(self.shape)
    if -1 in target:
        at = target.index(-1)
        target[at] = total // prod(s for s in target if s != -1)
    if prod(target) != total:
        raise NotRepresentableError("a view of another size")
    if lo.is_plain(self):
        return lo.load(lo.program.buffers[lo.arena.nodes[self.expr].buf], target)  # type: ignore[union-attr]
    return views.reshape(lo.arena, self, target)


def _flatten(lo: Lowering, self: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    shape, rank = self.shape, len(self.dims)
    if not rank:
        return _reshape(lo, self, [1])
    first, last = start_dim % rank, end_dim % rank
    return _reshape(lo, self, [*shape[:first], prod(shape[first : last + 1]), *shape[last + 1 :]])


def _unflatten(lo: Lowering, self: Value, dim: int, sizes: Sequence[int]) -> Value:
    shape, at = self.shape, dim % len(self.dims)
    return _reshape(lo, self, [*shape[:at], *sizes, *shape[at + 1 :]])


def _permute(lo: Lowering, self: Value, dims: Sequence[int]) -> Value:
    return views.permute(lo.arena, self, [d % len(self.dims) for d in dims])


def _transpose(lo: Lowering, self: Value, dim0: int, dim1: int) -> Value:
    order = list(range(len(self.dims)))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return views.permute(lo.arena, self, order)


def _t(lo: Lowering, self: Value) -> Value:
    return _transpose(lo, self, 0, 1) if len(self.dims) == 2 else self


def _unsqueeze(lo: Lowering, self: Value, dim: int) -> Value:
    return views.unsqueeze(self, dim % (len(self.dims) + 1))


def _squeeze(lo: Lowering, self: Value, dim: object = None) -> Value:
    return views.squeeze(self, lo.dims_of(self, dim))


def _expand(lo: Lowering, self: Value, size: Sequence[int], implicit: bool = False) -> Value:
    return views.expand(lo.arena, self, size)


def _expand_as(lo: Lowering, self: Value, other: Value) -> Value:
    return views.expand(lo.arena, self, other.shape)


def _broadcast_tensors(lo: Lowering, tensors: Sequence[Value]) -> tuple[Value, ...]:
    dims, exprs = views.align(lo.arena, list(tensors))
    return tuple(Value(dims, e, v.dtype) for e, v in zip(exprs, tensors, strict=True))


def _select(lo: Lowering, self: Value, dim: int, index: int) -> Value:
    dim %= len(self.dims)
    taken = views.take(lo.arena, self, dim, index % self.shape[dim], 1)
    return views.squeeze(taken, [dim])


def _slice(
    lo: Lowering, self: Value, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Value:
    dim %= len(self.dims)
    first, last, _ = slice(start, end, step).indices(self.shape[dim])
    count = -(-(last - first) // step)
    if count <= 0:
        raise NotRepresentableError("an empty tensor")
    if count == self.shape[dim]:
        return self
    return views.take(lo.arena, self, dim, first, count, step)


def _narrow(lo: Lowering, self: Value, dim: int, start: int, length: int) -> Value:
    return _slice(lo, self, dim, start, start + length)


def _flip(lo: Lowering, self: Value, dims: Sequence[int]) -> Value:
    for d in {d % len(self.dims) for d in dims}:
        size = self.shape[d]
        self = views.take(lo.arena, self, d, size - 1, size, -1)
    return self


def _pieces(lo: Lowering, value: Value, dim: int, sizes: Sequence[int]) -> tuple[Value, ...]:
    out, at = [], 0
    for size in sizes:
        out.append(_slice(lo, value, dim, at, at + size))
        at += size
    return tuple(out)


def _split(
    lo: Lowering, self: Value, split_size: object = 1, dim: int = 0, **sizes: object
) -> tuple[Value, ...]:
    parts = sizes.get("split_sizes", split_size)
    if isinstance(parts, int):
        total = self.shape[dim]
        parts = [min(parts, total - i) for i in range(0, total, parts)]
    return _pieces(lo, self, dim, list(parts))  # type: ignore[call-overload]


def _chunk(lo: Lowering, self: Value, chunks: int, dim: int = 0) -> tuple[Value, ...]:
    return _split(lo, self, -(-self.shape[dim] // chunks), dim)


def _unbind(lo: Lowering, self: Value, dim: int = 0) -> tuple[Value, ...]:
    return tuple(_select(lo, self, dim, i) for i in range(self.shape[dim]))


VIEWS: dict[str, Callable[..., object]] = {
    **{name: _same for name in ("clone", "contiguous", "detach", "alias", "lift_fresh_copy", "positive")},
    **{name: _reshape for name in ("view", "reshape", "_unsafe_view", "_reshape_alias")},
    "flatten": _flatten,
    "unflatten": _unflatten,
    "permute": _permute,
    "transpose": _transpose,
    "t": _t,
    "numpy_T": _t,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "expand": _expand,
    "expand_as": _expand_as,
    "broadcast_tensors": _broadcast_tensors,
    "select": _select,
    "slice": _slice,
    "narrow": _narrow,
    "flip": _flip,
    "split": _split,
    "split_with_sizes": _split,
    "chunk": _chunk,
    "unbind": _unbind,
}
