"""Reductions, softmax, normalisations and creation operators in terms of pointwise steps and reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from math import prod

from warpsmith.optimizer import views
from warpsmith.optimizer.index_ops import INDEXED, arg_reduction
from warpsmith.optimizer.ir import Iota, NotRepresentableError, Value, kind_of
from warpsmith.optimizer.lowering import REDUCTIONS, Lowering
from warpsmith.optimizer.pointwise import Tensor, as_float
from warpsmith.optimizer.scan_ops import SCAN_OPS
from warpsmith.optimizer.window_ops import WINDOWS


def _reduction(name: str) -> Callable[..., object]:
    def build(
        lo: Lowering, self: Value, dim: object = None, keepdim: bool = False, dtype: object = None
    ) -> object:
        value = lo.reduce(REDUCTIONS[name], _cast(self, dtype), dim, keepdim)
        if name not in ("max", "min") or not isinstance(dim, int):
            return value
        place = arg_reduction(name == "max")(lo, self, dim, keepdim) if kind_of(self.dtype) == "f" else None
        return value, place

    return build


def _cast(value: Value, dtype: object) -> Value:
    if dtype is not None and str(dtype).removeprefix("torch.") != value.dtype:
        raise NotRepresentableError("a reduction in another dtype")
    return value


def _mean(
    lo: Lowering, self: Value, dim: object = None, keepdim: bool = False, dtype: object = None
) -> Value:
    return lo.mean(_cast(self, dtype), dim, keepdim)


def _var(
    lo: Lowering,
    self: Value,
    dim: object = None,
    correction: object = None,
    keepdim: bool = False,
    unbiased: bool = True,
) -> Value:
    correction = correction if unbiased else 0
    dims = lo.dims_of(self, dim)
    count = prod(self.shape[d] for d in dims)
    free = count - (1.0 if correction is None else float(correction))  # type: ignore[arg-type]
    if free <= 0:
        raise NotRepresentableError("a variance without degrees of freedom")
    centred = lo.binary("sub", self, lo.mean(self, dim, True))
    total = lo.reduce("sum", lo.binary("mul", centred, centred), dim, keepdim)
    return lo.binary("div", total, float(free))


def _std(
    lo: Lowering,
    self: Value,
    dim: object = None,
    correction: object = None,
    keepdim: bool = False,
    unbiased: bool = True,
) -> Value:
    return lo.unary("sqrt", _var(lo, self, dim, correction, keepdim, unbiased))


def _softmax(lo: Lowering, self: Value, dim: int, dtype: object = None, half_to_float: bool = False) -> Value:
    value = _cast(self, dtype)
    peak = lo.reduce("max", value, dim, True)
    power = lo.unary("exp", lo.binary("sub", value, peak))
    scale = lo.unary("reciprocal", lo.reduce("sum", power, dim, True))
    return lo.binary("mul", power, scale)


def _log_softmax(
    lo: Lowering, self: Value, dim: int, dtype: object = None, half_to_float: bool = False
) -> Value:
    value = _cast(self, dtype)
    centred = lo.binary("sub", value, lo.reduce("max", value, dim, True))
    total = lo.reduce("sum", lo.unary("exp", centred), dim, True)
    return lo.binary("sub", centred, lo.unary("log", total))


def _logsumexp(lo: Lowering, self: Value, dim: object, keepdim: bool = False) -> Value:
    dims = lo.dims_of(self, dim)
    peak = lo.reduce("max", self, dims, True)
    if peak is self:
        lo.program.notes.append("logsumexp over a dimension of size 1 dropped")
        return self if keepdim else views.squeeze(self, dims)
    # an infinite maximum is the result: nothing is shifted by it
    infinite = lo.binary("eq", lo.unary("abs", peak), math.inf)
    shift = lo.apply("where", condition=infinite, self=0.0, other=peak)
    total = lo.reduce("sum", lo.unary("exp", lo.binary("sub", self, shift)), dims, True)
    out = lo.binary("add", lo.unary("log", total), shift)
    return out if keepdim else views.squeeze(out, dims)


def _vector_norm(
    lo: Lowering, self: Value, ord: float = 2, dim: object = None, keepdim: bool = False, dtype: object = None
) -> Value:
    value = _cast(self, dtype)
    size = lo.unary("abs", value)
    if math.isinf(ord):
        return lo.reduce("max" if ord > 0 else "min", size, dim, keepdim)
    if ord == 1:
        return lo.reduce("sum", size, dim, keepdim)
    if ord == 2:
        return lo.unary("sqrt", lo.reduce("sum", lo.binary("mul", value, value), dim, keepdim))
    if ord <= 0:
        raise NotRepresentableError("a norm that counts")
    total = lo.reduce("sum", lo.apply("pow", self=size, exponent=float(ord)), dim, keepdim)
    return lo.apply("pow", self=total, exponent=1 / float(ord))


def _norm(
    lo: Lowering, self: Value, p: object = 2, dim: object = None, keepdim: bool = False, dtype: object = None
) -> Value:
    return _vector_norm(lo, self, 2 if p is None else p, dim, keepdim, dtype)  # type: ignore[arg-type]


def _affine(lo: Lowering, value: Value, weight: Value | None, bias: Value | None) -> Value:
    if weight is not None:
        value = lo.binary("mul", value, weight)
    return value if bias is None else lo.binary("add", value, bias)


def _layer_norm(
    lo: Lowering,
    input: Value,
    normalized_shape: Sequence[int],
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Value:
    rank = len(input.dims)
    dims = list(range(rank - len(normalized_shape), rank))
    centred, variance = lo.moments(input, dims)
    scale = lo.unary("rsqrt", lo.binary("add", variance, float(eps)))
    return _affine(lo, lo.binary("mul", centred, scale), weight, bias)


def _rms_norm(
    lo: Lowering,
    input: Value,
    normalized_shape: Sequence[int],
    weight: Value | None = None,
    eps: float | None = None,
) -> Value:
    rank = len(input.dims)
    dims = list(range(rank - len(normalized_shape), rank))
    tiny = {"float32": 2**-23, "float16": 2**-10, "bfloat16": 2**-7}[input.dtype] if eps is None else eps
    power = lo.mean(lo.binary("mul", input, input), dims, True)
    scale = lo.unary("rsqrt", lo.binary("add", power, float(tiny)))
    return _affine(lo, lo.binary("mul", input, scale), weight, None)


def _per_channel(lo: Lowering, value: Value | None, rank: int) -> Value | None:
    """A [C] vector as [C, 1, 1, …], to broadcast over dimension 1 of a tensor of `rank`."""
    return None if value is None else Value((*value.dims, *(((),) * (rank - 2))), value.expr, value.dtype)


def _group_norm(
    lo: Lowering,
    input: Value,
    num_groups: int,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Value:
    shape = input.shape
    grouped = views.reshape(lo.arena, input, (shape[0], num_groups, shape[1] // num_groups, *shape[2:]))
    dims = list(range(2, len(grouped.dims)))
    centred, variance = lo.moments(grouped, dims)
    scale = lo.unary("rsqrt", lo.binary("add", variance, float(eps)))
    flat = views.reshape(lo.arena, lo.binary("mul", centred, scale), shape)
    rank = len(shape)
    return _affine(lo, flat, _per_channel(lo, weight, rank), _per_channel(lo, bias, rank))


def _instance_norm(
    lo: Lowering,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Value:
    if not use_input_stats:
        return _batch_norm(lo, input, weight, bias, running_mean, running_var, momentum, eps)[0]
    rank = len(input.dims)
    centred, variance = lo.moments(input, list(range(2, rank)))
    scale = lo.unary("rsqrt", lo.binary("add", variance, float(eps)))
    out = lo.binary("mul", centred, scale)
    return _affine(lo, out, _per_channel(lo, weight, rank), _per_channel(lo, bias, rank))


def _batch_norm(
    lo: Lowering,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    momentum: float,
    eps: float,
) -> tuple[Value, None, None]:
    rank = len(input.dims)
    if running_mean is None or running_var is None:
        raise NotRepresentableError("batch norm without running statistics")
    scale = lo.unary("rsqrt", lo.binary("add", running_var, float(eps)))
    if weight is not None:
        scale = lo.binary("mul", scale, weight)
    mean, factor, shift = (_per_channel(lo, v, rank) for v in (running_mean, scale, bias))
    assert mean is not None
    return _affine(lo, lo.binary("sub", input, mean), factor, shift), None, None


def _prelu(lo: Lowering, self: Value, weight: Value) -> Value:
    slope = weight if weight.shape == (1,) else _per_channel(lo, weight, len(self.dims))
    low = lo.binary("mul", self, slope)
    return lo.apply("where", condition=lo.binary("gt", self, 0.0), self=self, other=low)


def _glu(lo: Lowering, self: Value, dim: int = -1) -> Value:
    dim %= len(self.dims)
    half = self.shape[dim] // 2
    left = views.take(lo.arena, self, dim, 0, half)
    right = views.take(lo.arena, self, dim, half, half)
    return lo.binary("mul", left, lo.unary("sigmoid", right))


def _dropout(lo: Lowering, input: Value, p: float, train: bool) -> Value:
    if train:
        raise NotRepresentableError("random numbers")
    return input


def _triangle(upper: bool) -> Callable[..., Value]:
    def build(lo: Lowering, self: Value, diagonal: int = 0) -> Value:
        rows, columns = self.shape[-2:]
        dims = tuple((s,) if s > 1 else () for s in (rows, columns))
        strides = tuple(step for size, step in ((rows, -1), (columns, 1)) if size > 1)
        place = Value(dims, lo.arena.add(Iota(0, strides)), "int64")
        keep = lo.binary("ge" if upper else "le", place, diagonal)
        zero = 0.0 if self.dtype.startswith(("float", "bfloat")) else 0
        return lo.apply("where", condition=keep, self=self, other=zero)

    return build


def _arange(
    lo: Lowering, start: float = 0, end: float = 0, step: float = 1, dtype: object = None, **_: object
) -> Value:
    if not all(isinstance(v, int) for v in (start, end, step)):
        raise NotRepresentableError("arange of floats")
    count = max(0, -(-(end - start) // step))
    if not count:
        raise NotRepresentableError("an empty tensor")
    dims = ((count,),) if count > 1 else ((),)
    expr = lo.arena.add(Iota(int(start), (int(step),) if count > 1 else ()))
    name = "int64" if dtype is None else str(dtype).removeprefix("torch.")
    return Value(dims, as_float(lo.arena, Tensor(expr)) if "float" in name else expr, name)


COMPOSITES: dict[str, Callable[..., object]] = {
    **{name: _reduction(name) for name in REDUCTIONS},
    "mean": _mean,
    "var": _var,
    "std": _std,
    "softmax": _softmax,
    "_softmax": _softmax,
    "log_softmax": _log_softmax,
    "_log_softmax": _log_softmax,
    "logsumexp": _logsumexp,
    "linalg_vector_norm": _vector_norm,
    "norm": _norm,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "_native_batch_norm_legit_no_training": _batch_norm,
    "prelu": _prelu,
    "glu": _glu,
    "dropout": _dropout,
    "feature_dropout": _dropout,
    "triu": _triangle(True),
    "tril": _triangle(False),
    "arange": _arange,
    **INDEXED,
    **WINDOWS,
    **SCAN_OPS,
}
