"""Operators that read by a computed place: gather, embedding, concatenation, padding, argmax and class losses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warpsmith.optimizer import views
from warpsmith.optimizer.ir import NotRepresentableError, Value, contiguous_strides, kind_of
from warpsmith.optimizer.lowering import Lowering
from warpsmith.optimizer.scan_ops import scanned_after_zeros

MAX_PIECES = 8
"""Tensors that a concatenation chooses between for each element."""


def _ints(lo: Lowering, name: str, left: Value, right: Value | int) -> Value:
    return lo.apply(name, "int64", self=left, other=right)


def _flat_index(lo: Lowering, shape: Sequence[int], places: dict[int, Value], over: Sequence[int]) -> Value:
    """Place in a contiguous tensor of `shape`: given places along some dimensions, the output's own along the others.

    `over`: the output's shape, in which dimensions that are not in `places` lie where they lie in `shape`.
    """
    strides = contiguous_strides(tuple(shape))
    total: Value | None = None
    for d, stride in enumerate(strides):
        term = places.get(d)
        term = lo.iota(over, d, 0, stride) if term is None else _ints(lo, "mul", term, stride)
        total = term if total is None else _ints(lo, "add", total, term)
    assert total is not None
    return total


def _wrapped(lo: Lowering, index: Value, size: int) -> Value:
    """Negative places count from the end."""
    below = lo.binary("lt", index, 0)
    return lo.apply("where", "int64", condition=below, self=_ints(lo, "add", index, size), other=index)


def _gather(lo: Lowering, self: Value, dim: int, index: Value, sparse_grad: bool = False) -> Value:
    if not self.dims:
        raise NotRepresentableError("a gather from a scalar")
    dim %= len(self.dims)
    return lo.pick(self, _flat_index(lo, self.shape, {dim: index}, index.shape))


def _index_select(lo: Lowering, self: Value, dim: int, index: Value) -> Value:
    dim %= len(self.dims)
    over = [*self.shape[:dim], index.shape[0] if index.dims else 1, *self.shape[dim + 1 :]]
    place = index
    for _ in range(len(over) - dim - 1):
        place = views.unsqueeze(place, len(place.dims))
    found = lo.pick(self, _flat_index(lo, self.shape, {dim: place}, over))
    return found


def _embedding(
    lo: Lowering,
    weight: Value,
    indices: Value,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    width = weight.shape[1]
    over = [*indices.shape, width]
    row = _ints(lo, "mul", views.unsqueeze(indices, len(indices.dims)), width)
    return lo.pick(weight, _ints(lo, "add", row, lo.iota(over, len(over) - 1)))


def _index(lo: Lowering, self: Value, indices: Sequence[Value | None]) -> Value:
    """x[..., i, ...] with one integer tensor."""
    at = [d for d, i in enumerate(indices) if i is not None]
    if len(at) != 1 or kind_of(indices[at[0]].dtype) != "i":  # type: ignore[union-attr]
        raise NotRepresentableError("indexing with a mask or several tensors")
    dim, index = at[0], indices[at[0]]
    assert index is not None
    rank = len(index.dims)
    after = len(self.dims) - dim - 1
    over = [*self.shape[:dim], *index.shape, *self.shape[dim + 1 :]]
    place = _wrapped(lo, index, self.shape[dim])
    for _ in range(after):
        place = views.unsqueeze(place, len(place.dims))
    strides = contiguous_strides(self.shape)
    total = _ints(lo, "mul", place, strides[dim])
    for d, stride in enumerate(strides):
        if d != dim:
            total = _ints(lo, "add", total, lo.iota(over, d if d < dim else d + rank - 1, 0, stride))
    return lo.pick(self, total)


def _one_piece(lo: Lowering, value: Value, dim: int, size: int, start: int) -> tuple[Value, Value]:
    """`value` as the elements from `start` on of a dimension of `size`, and where it lies there."""
    if len(value.dims[dim]) > 1:
        value = views.coalesced(lo.arena, value)
    if len(value.dims[dim]) > 1:
        value = lo.stored(value)
    at = sum(len(d) for d in value.dims[:dim])
    width, length = len(value.dims[dim]), value.shape[dim]

    def move(offset: int, strides: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        own = strides[at] if width else 0
        return offset - start * own, (*strides[:at], own, *strides[at + width :])

    dims = (*value.dims[:dim], (size,), *value.dims[dim + 1 :])
    moved = Value(dims, lo.arena.restride(value.expr, move), value.dtype)
    shape = [1] * len(dims)
    shape[dim] = size
    guard = lo.within(lo.iota(shape, dim, -start), length)
    return lo.guarded(moved, guard), guard


def _cat(lo: Lowering, tensors: Sequence[Value], dim: int = 0) -> Value:
    pieces = list(tensors)
    if (
        len(pieces) > MAX_PIECES
        or len({v.dtype for v in pieces}) > 1
        or len({len(v.dims) for v in pieces}) > 1
    ):
        raise NotRepresentableError("a concatenation of many or of different tensors")
    dim %= len(pieces[0].dims)
    size = sum(v.shape[dim] for v in pieces)
    if len(pieces) == 1:
        return pieces[0]
    if len(pieces) == 2:
        summed = scanned_after_zeros(lo, pieces[0], pieces[1], dim)
        if summed is not None:
            return lo.scan("cumsum", _cat(lo, [pieces[0], summed], dim), dim, pieces[1].dtype)
    out, start = None, 0
    for value in pieces:
        piece, guard = _one_piece(lo, value, dim, size, start)
        start += value.shape[dim]
        out = piece if out is None else lo.apply("where", value.dtype, condition=guard, self=piece, other=out)
    assert out is not None
    return out


def _stack(lo: Lowering, tensors: Sequence[Value], dim: int = 0) -> Value:
    dim %= len(tensors[0].dims) + 1
    return _cat(lo, [views.unsqueeze(v, dim) for v in tensors], dim)


def _constant_pad(lo: Lowering, self: Value, pad: Sequence[int], value: float = 0) -> Value:
    out = self
    for k in range(len(pad) // 2):
        dim, (left, right) = len(self.dims) - 1 - k, pad[2 * k : 2 * k + 2]
        if left < 0 or right < 0:
            raise NotRepresentableError("padding that cuts")
        if left or right:
            size = out.shape[dim] + left + right
            piece, guard = _one_piece(lo, out, dim, size, left)
            fill = float(value) if kind_of(self.dtype) == "f" else int(value)
            out = lo.apply("where", self.dtype, condition=guard, self=piece, other=fill)
    return out


def _pad(
    lo: Lowering, self: Value, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Value:
    if mode == "constant":
        return _constant_pad(lo, self, pad, value or 0)
    if mode not in ("reflect", "replicate"):
        raise NotRepresentableError(f"padding of mode {mode}")
    return _edge_pad(mode)(lo, self, pad)


def _edge_pad(mode: str) -> Callable[..., Value]:
    def build(lo: Lowering, self: Value, padding: Sequence[int]) -> Value:
        count, rank = len(padding) // 2, len(self.dims)
        if min(padding) < 0:
            raise NotRepresentableError("padding that cuts")
        over = list(self.shape)
        for k in range(count):
            over[rank - 1 - k] += padding[2 * k] + padding[2 * k + 1]
        places = {}
        for k in range(count):
            dim = rank - 1 - k
            last = self.shape[dim] - 1
            place = lo.iota(over, dim, -padding[2 * k])
            if mode == "reflect":
                place = lo.apply("abs", "int64", self=place)
                far = lo.apply("rsub", "int64", self=place, other=2 * last)
                place = lo.apply("minimum", "int64", self=place, other=far)
            else:
                place = lo.apply("clamp", "int64", self=place, min=0, max=last)
            places[dim] = place
        return lo.pick(self, _flat_index(lo, self.shape, places, over))

    return build


def _arg(lo: Lowering, value: Value, dim: int | None, keepdim: bool, largest: bool) -> Value:
    if kind_of(value.dtype) == "i":
        raise NotRepresentableError("the place of an integer")
    if dim is None:
        shape = value.shape
        out = _arg(lo, views.reshape(lo.arena, value, [value_numel(value)]), 0, False, largest)
        return Value(tuple(() for _ in shape), out.expr, out.dtype) if keepdim else out
    if not value.dims:
        return lo.constant(0, (), "int64")
    dim %= len(value.dims)
    if value.shape[dim] == 1:
        out = lo.constant(0, value.shape, "int64")
        return out if keepdim else views.squeeze(out, [dim])
    place = lo.iota(value.shape, dim)
    keyed = value if largest else lo.unary("neg", value)
    dims, exprs = views.align(lo.arena, [keyed, place])
    as_key = lo.arena.op("arg_key", *exprs, kind="i")
    best = lo.reduce("max", Value(dims, as_key, "int64"), dim, keepdim)
    return Value(best.dims, lo.arena.op("key_place", best.expr, kind="i"), "int64")


def value_numel(value: Value) -> int:
    """Number of elements."""
    total = 1
    for size in value.shape:
        total *= size
    return total


def arg_reduction(largest: bool) -> Callable[..., object]:
    """argmax or argmin: NaN wins, then the smaller place."""

    def build(lo: Lowering, self: Value, dim: int | None = None, keepdim: bool = False) -> Value:
        return _arg(lo, self, dim, keepdim, largest)

    return build


def _picked_log(lo: Lowering, self: Value, target: Value) -> tuple[Value, Value]:
    """(class dimension, the element of each sample's target class) for [N, C, …] and targets [N, …]."""
    dim = 1 if len(self.dims) > 1 else 0
    index = views.unsqueeze(target, dim)
    found = lo.pick(self, _flat_index(lo, self.shape, {dim: index}, index.shape))
    return views.squeeze(found, [dim]), target


def _cross_entropy(
    lo: Lowering,
    self: Value,
    target: Value,
    weight: Value | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Value:
    """log Σ exp(x) − x[target], averaged over the targets that are not ignored."""
    if weight is not None or label_smoothing or kind_of(target.dtype) != "i" or len(self.dims) < 2:
        raise NotRepresentableError("a weighted or smoothed cross entropy")
    peak = lo.reduce("max", self, 1, True)
    total = lo.reduce("sum", lo.unary("exp", lo.binary("sub", self, peak)), 1, True)
    log_sum = views.squeeze(lo.binary("add", lo.unary("log", total), peak), [1])
    return _chosen_loss(lo, self, log_sum, target, reduction, ignore_index)


def _nll(
    lo: Lowering,
    self: Value,
    target: Value,
    weight: Value | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
) -> Value:
    if weight is not None or len(self.dims) < 2:
        raise NotRepresentableError("a weighted loss")
    return _chosen_loss(lo, self, None, target, reduction, ignore_index)


def _chosen_loss(
    lo: Lowering, self: Value, log_sum: Value | None, target: Value, reduction: int, ignore_index: int
) -> Value:
    counted = lo.binary("ne", target, int(ignore_index))
    index = views.unsqueeze(target, 1)
    guard = views.unsqueeze(counted, 1)
    place = _flat_index(lo, self.shape, {1: index}, index.shape)
    chosen = views.squeeze(lo.pick(self, place, guard), [1])
    loss = lo.unary("neg", chosen) if log_sum is None else lo.binary("sub", log_sum, chosen)
    loss = lo.apply("where", self.dtype, condition=counted, self=loss, other=0.0)
    if reduction == 0:
        return loss
    total = lo.reduce("sum", loss, None, False)
    if reduction == 2:
        return total
    ones = lo.apply("where", "float32", condition=counted, self=1.0, other=0.0)
    return lo.binary("div", total, lo.reduce("sum", ones, None, False))


INDEXED: dict[str, Callable[..., object]] = {
    "gather": _gather,
    "index_select": _index_select,
    "embedding": _embedding,
    "index": _index,
    "cat": _cat,
    "concat": _cat,
    "stack": _stack,
    "constant_pad_nd": _constant_pad,
    "pad": _pad,
    **{f"reflection_pad{r}d": _edge_pad("reflect") for r in (1, 2, 3)},
    **{f"replication_pad{r}d": _edge_pad("replicate") for r in (1, 2, 3)},
    "argmax": arg_reduction(True),
    "argmin": arg_reduction(False),
    "cross_entropy_loss": _cross_entropy,
    "nll_loss": _nll,
    "nll_loss_nd": _nll,
}
