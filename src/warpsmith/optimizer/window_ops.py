"""Pooling in one to three dimensions: reductions over overlapping windows, which are views like any other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from warpsmith.optimizer import views
from warpsmith.optimizer.ir import NotRepresentableError, Op, Value, kind_of
from warpsmith.optimizer.lowering import Lowering
from warpsmith.optimizer.pointwise import Tensor, as_float

CHEAP_OPS = 12
"""Operators on a window's elements that are computed anew in each window that an element lies in."""


@dataclass(frozen=True)
class Window:
    """One pooled dimension: output `o` takes elements `o · stride − padding + k · dilation`, k < `kernel`."""

    size: int
    kernel: int
    stride: int
    padding: int = 0
    dilation: int = 1
    ceil: bool = False

    @property
    def out(self) -> int:
        """Number of windows, as PyTorch counts them."""
        span = self.size + 2 * self.padding - self.dilation * (self.kernel - 1) - 1
        count = (-(-span // self.stride) if self.ceil else span // self.stride) + 1
        # the last window must start inside the input or its left padding
        if self.ceil and (count - 1) * self.stride >= self.size + self.padding:
            count -= 1
        return count

    @property
    def inside(self) -> bool:
        """Whether every window lies within the input."""
        last = (self.out - 1) * self.stride + (self.kernel - 1) * self.dilation - self.padding
        return self.padding == 0 and last < self.size


def windowed(lo: Lowering, value: Value, windows: Sequence[Window]) -> tuple[Value, Value | None]:
    """The last dimensions as windows, [..., outs..., kernels...], and where these lie inside (None: everywhere)."""
    value = _named(lo, value, windows)
    first = len(value.dims) - len(windows)
    outs = [w.out for w in windows]
    if min(outs) < 1:
        raise NotRepresentableError("an empty tensor")
    lead = [1] * first
    shape = [*lead, *outs, *(w.kernel for w in windows)]
    spread = _spread(lo, value, windows, first)
    guard: Value | None = None
    for k, w in enumerate(windows):
        if not w.inside:
            out = lo.iota(shape, first + k, -w.padding, w.stride)
            tap = lo.iota(shape, first + len(windows) + k, 0, w.dilation)
            here = lo.within(_sum(lo, out, tap), w.size)
            guard = here if guard is None else lo.binary("logical_and", guard, here)
    return (spread, None) if guard is None else (lo.guarded(spread, guard), guard)


def _sum(lo: Lowering, left: Value, right: Value) -> Value:
    """The sum of two iotas over one shape, as one iota."""
    a, b = lo.arena.nodes[left.expr], lo.arena.nodes[right.expr]
    strides = tuple(x + y for x, y in zip(a.strides, b.strides, strict=True))  # type: ignore[union-attr]
    return Value(left.dims, lo.arena.add(type(a)(a.offset + b.offset, strides)), "int64")  # type: ignore[call-arg, union-attr]


def _named(lo: Lowering, value: Value, windows: Sequence[Window]) -> Value:
    """The value in memory where its elements cost more than a read, or where its factors are not plain."""
    first = len(value.dims) - len(windows)
    if any(len(d) > 1 for d in value.dims[first:]):
        value = views.coalesced(lo.arena, value)
    plain = all(len(d) < 2 for d in value.dims[first:])
    work = sum(isinstance(lo.arena.nodes[at], Op) for at in lo.arena.walk(value.expr))
    overlap = any(w.kernel > w.stride for w in windows)
    return (
        value
        if plain and (work <= CHEAP_OPS if overlap else True) and not _picks(lo, value)
        else lo.stored(value)
    )


def _picks(lo: Lowering, value: Value) -> bool:
    nodes = (lo.arena.nodes[at] for at in lo.arena.walk(value.expr))
    return any(isinstance(n, Op) and n.name.startswith("pick") for n in nodes)


def _spread(lo: Lowering, value: Value, windows: Sequence[Window], first: int) -> Value:
    lead = sum(len(d) for d in value.dims[:first])
    has = [bool(d) for d in value.dims[first:]]

    def move(offset: int, strides: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        rest = iter(strides[lead:])
        own = [next(rest) if h else 0 for h in has]
        if any(strides):
            offset -= sum(s * w.padding for s, w in zip(own, windows, strict=True))
        outs = [s * w.stride for s, w in zip(own, windows, strict=True) if w.out > 1]
        taps = [s * w.dilation for s, w in zip(own, windows, strict=True) if w.kernel > 1]
        return offset, (*strides[:lead], *outs, *taps)

    dims = [(n,) if n > 1 else () for n in (*(w.out for w in windows), *(w.kernel for w in windows))]
    return Value((*value.dims[:first], *dims), lo.arena.restride(value.expr, move), value.dtype)


def _windows(
    rank: int,
    shape: Sequence[int],
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> list[Window]:
    def each(given: Sequence[int] | int | None) -> list[int]:
        values = [given] if isinstance(given, int) else list(given or ())
        return values * rank if len(values) == 1 else values

    kernels = each(kernel_size)
    strides = each(stride) or kernels
    parts = zip(shape[-rank:], kernels, strides, each(padding), each(dilation), strict=True)
    return [Window(*part, ceil_mode) for part in parts]


def _max_pool(rank: int) -> Callable[..., object]:
    def build(
        lo: Lowering,
        self: Value,
        kernel_size: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        dilation: Sequence[int] = (1,),
        ceil_mode: bool = False,
    ) -> Value:
        if kind_of(self.dtype) != "f":
            raise NotRepresentableError("pooling of integers")
        windows = _windows(rank, self.shape, kernel_size, stride, padding, dilation, ceil_mode)
        taken, guard = windowed(lo, self, windows)
        if guard is not None:
            taken = lo.apply("where", condition=guard, self=taken, other=-math.inf)
        return _over_taps(lo, "max", taken, rank)

    return build


def _over_taps(lo: Lowering, kind: str, taken: Value, rank: int) -> Value:
    dims = list(range(len(taken.dims) - rank, len(taken.dims)))
    return lo.reduce(kind, taken, dims, False)


def _avg_pool(rank: int) -> Callable[..., object]:
    def build(
        lo: Lowering,
        self: Value,
        kernel_size: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Value:
        windows = _windows(rank, self.shape, kernel_size, stride, padding, (1,), ceil_mode)
        taken, guard = windowed(lo, self, windows)
        if guard is not None:
            taken = lo.apply("where", condition=guard, self=taken, other=0.0)
        total = _over_taps(lo, "sum", taken, rank)
        if divisor_override:
            return lo.binary("div", total, float(divisor_override))
        return lo.binary("div", total, _count(lo, total.shape, windows, count_include_pad))

    return build


def _count(
    lo: Lowering, shape: Sequence[int], windows: Sequence[Window], include_padding: bool
) -> Value | float:
    """Elements in each window: those inside the padded input (or the input alone)."""
    count: Value | float = 1.0
    first = len(shape) - len(windows)
    for k, w in enumerate(windows):
        edge = w.padding if include_padding else 0
        last = (w.out - 1) * w.stride - w.padding + w.kernel
        if w.padding <= edge and last <= w.size + edge:
            count = lo.binary("mul", count, float(w.kernel)) if isinstance(count, Value) else count * w.kernel
            continue
        start = lo.iota([1] * first + [v.out for v in windows], first + k, -w.padding, w.stride)
        end = lo.apply(
            "clamp", "int64", self=lo.apply("add", "int64", self=start, other=w.kernel), max=w.size + edge
        )
        begin = lo.apply("clamp", "int64", self=start, min=-edge)
        length = lo.apply("sub", "int64", self=end, other=begin)
        as_value = Value(length.dims, as_float(lo.arena, Tensor(length.expr)), "float32")
        count = lo.binary("mul", as_value, count)
    return count


def _adaptive(kind: str, rank: int) -> Callable[..., object]:
    def build(lo: Lowering, self: Value, output_size: Sequence[int]) -> Value:
        sizes = self.shape[-rank:]
        outs = list(output_size)
        outs = outs * rank if len(outs) == 1 else outs
        if any(s % o for s, o in zip(sizes, outs, strict=True)):
            raise NotRepresentableError("adaptive pooling with uneven windows")
        kernels = [s // o for s, o in zip(sizes, outs, strict=True)]
        shape = [n for o, k in zip(outs, kernels, strict=True) for n in (o, k)]
        lead = len(self.dims) - rank
        split = views.reshape(lo.arena, self, [*self.shape[:lead], *shape])
        dims = [lead + 2 * k + 1 for k in range(rank)]
        total = lo.reduce("sum" if kind == "avg" else kind, split, dims, False)
        return lo.binary("div", total, float(prod(kernels))) if kind == "avg" else total

    return build


def _upsample_nearest(rank: int) -> Callable[..., object]:
    def build(
        lo: Lowering,
        self: Value | None = None,
        output_size: Sequence[int] | None = None,
        scales: object = None,
        scale_factors: Sequence[float] | None = None,
        input: Value | None = None,
        **_: object,
    ) -> Value:
        value = self if self is not None else input
        assert value is not None
        sizes = value.shape[-rank:]
        outs = (
            list(output_size)
            if output_size
            else [int(s * f) for s, f in zip(sizes, scale_factors or (), strict=True)]
        )
        if any(o % s for s, o in zip(sizes, outs, strict=True)):
            raise NotRepresentableError("upsampling by a fraction")
        lead = len(value.dims) - rank
        wide = value
        for k, (size, out) in enumerate(zip(sizes, outs, strict=True)):
            wide = views.unsqueeze(wide, lead + 2 * k + 1)
            shape = [-1] * len(wide.dims)
            shape[lead + 2 * k + 1] = out // size
            wide = views.expand(lo.arena, wide, shape)
        return views.reshape(lo.arena, wide, [*value.shape[:lead], *outs])

    return build


WINDOWS: dict[str, Callable[..., object]] = {
    **{f"max_pool{r}d": _max_pool(r) for r in (1, 2, 3)},
    **{f"avg_pool{r}d": _avg_pool(r) for r in (1, 2, 3)},
    **{f"adaptive_avg_pool{r}d": _adaptive("avg", r) for r in (1, 2, 3)},
    **{f"_adaptive_avg_pool{r}d": _adaptive("avg", r) for r in (2, 3)},
    **{f"upsample_nearest{r}d": _upsample_nearest(r) for r in (1, 2, 3)},
}
