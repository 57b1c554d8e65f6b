"""Convolutions in 1, 2 and 3 dimensions and their transposes, through cuDNN; the bias joins the tail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from warpsmith.optimizer import views
from warpsmith.optimizer.ir import NotRepresentableError, Value
from warpsmith.optimizer.library import LIBRARY_DTYPES, Conv, in_buffer, library_step
from warpsmith.optimizer.lowering import Lowering

MAX_EXTENT = 2**31 - 1
"""Elements of one call: cuDNN's descriptors hold 32-bit strides."""


def _convolution(rank: int) -> Callable[..., object]:
    def build(
        lo: Lowering,
        input: Value,
        weight: Value,
        bias: Value | None = None,
        stride: object = 1,
        padding: object = 0,
        dilation: object = 1,
        groups: int = 1,
    ) -> Value:
        spread = _each(dilation, rank)
        pad = _padding(padding, weight.shape[2:], spread, _each(stride, rank))
        return _run(lo, input, weight, bias, _each(stride, rank), pad, spread, groups)

    return build


def _transposed(rank: int) -> Callable[..., object]:
    def build(
        lo: Lowering,
        input: Value,
        weight: Value,
        bias: Value | None = None,
        stride: object = 1,
        padding: object = 0,
        output_padding: object = 0,
        groups: int = 1,
        dilation: object = 1,
    ) -> Value:
        extra, spread = _each(output_padding, rank), _each(dilation, rank)
        return _run(lo, input, weight, bias, _each(stride, rank), _each(padding, rank), spread, groups, extra)

    return build


def _each(value: object, rank: int) -> tuple[int, ...]:
    """One number for each dimension of space."""
    if isinstance(value, int):
        return (value,) * rank
    found = tuple(value)  # type: ignore[arg-type]
    return found * rank if len(found) == 1 else found


def _padding(
    padding: object, taps: Sequence[int], dilation: Sequence[int], stride: Sequence[int]
) -> tuple[int, ...]:
    if padding == "valid":
        return (0,) * len(taps)
    if padding == "same":
        total = [d * (k - 1) for k, d in zip(taps, dilation, strict=True)]
        if any(t % 2 for t in total) or any(s != 1 for s in stride):
            raise NotRepresentableError("padding that differs between the sides")
        return tuple(t // 2 for t in total)
    return _each(padding, len(taps))


def _run(
    lo: Lowering,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
    extra: tuple[int, ...] | None = None,
) -> Value:
    """The convolution, or its transpose where `extra` (the output padding) is given."""
    rank = len(stride)
    if input.dtype != weight.dtype or input.dtype not in LIBRARY_DTYPES:
        raise NotRepresentableError("a convolution of these dtypes")
    single = len(input.dims) == rank + 1
    if single:
        input = views.unsqueeze(input, 0)
    if len(input.dims) != rank + 2 or len(weight.dims) != rank + 2:
        raise NotRepresentableError("a convolution of these shapes")
    sizes, taps = input.shape, weight.shape
    space = _space(sizes[2:], taps[2:], stride, padding, dilation, extra)
    channels = taps[0] if extra is None else taps[1] * groups
    out = (sizes[0], channels, *space)
    parts = _parts(sizes[0], max(prod(sizes), prod(out)))
    if parts is None or prod(taps) > MAX_EXTENT or min(space) < 1:
        raise NotRepresentableError("a convolution of this size")
    one = sizes[0] // parts
    spec = Conv(
        (one, *sizes[1:]),
        taps,
        (one, *out[1:]),
        padding,
        stride,
        dilation,
        groups,
        input.dtype,
        transposed=extra is not None,
        parts=parts,
    )
    refs = [lo.tensor_ref(in_buffer(lo, v)) for v in (input, weight)]
    made = library_step(lo, out, _planar(spec), refs)
    if bias is not None:
        along = Value((*bias.dims, *(((),) * rank)), bias.expr, bias.dtype)
        made = lo.binary("add", made, along)
    return views.squeeze(made, [0]) if single else made


def _space(
    sizes: tuple[int, ...],
    taps: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    extra: tuple[int, ...] | None,
) -> tuple[int, ...]:
    """Extents of the output in space."""
    found = []
    for i, size in enumerate(sizes):
        reach = dilation[i] * (taps[i] - 1) + 1
        if extra is None:
            found.append((size + 2 * padding[i] - reach) // stride[i] + 1)
        else:
            found.append((size - 1) * stride[i] - 2 * padding[i] + reach + extra[i])
    return tuple(found)


def _planar(spec: Conv) -> Conv:
    """One dimension of space as two: cuDNN has no convolution of three axes."""
    if len(spec.sizes) != 3:
        return spec
    shapes = [(s[0], s[1], 1, s[2]) for s in (spec.sizes, spec.filter, spec.out)]
    return Conv(
        *shapes,
        padding=(0, *spec.padding),
        stride=(1, *spec.stride),
        dilation=(1, *spec.dilation),
        groups=spec.groups,
        dtype=spec.dtype,
        transposed=spec.transposed,
        parts=spec.parts,
    )


def _parts(batch: int, elements: int) -> int | None:
    """The fewest equal parts of the batch that the descriptors can hold."""
    fitting = (p for p in range(1, batch + 1) if batch % p == 0 and elements // p <= MAX_EXTENT)
    return next(fitting, None)


CONVOLUTIONS: dict[str, Callable[..., object]] = {
    **{f"conv{rank}d": _convolution(rank) for rank in (1, 2, 3)},
    **{f"conv_transpose{rank}d": _transposed(rank) for rank in (1, 2, 3)},
}
