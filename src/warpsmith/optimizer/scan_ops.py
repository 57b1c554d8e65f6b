"""cumsum and cumprod; a scan of a flipped tensor is a scan from the other end, flipped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from warpsmith.optimizer import views
from warpsmith.optimizer.ir import Load, NotRepresentableError, Value, kind_of
from warpsmith.optimizer.lowering import Lowering
from warpsmith.optimizer.pointwise import Tensor, as_int


def _backwards(lo: Lowering, value: Value, dim: int) -> bool:
    """Whether everything that moves along the dimension does so from its end."""
    if len(value.dims[dim]) != 1:
        return False
    at = sum(len(d) for d in value.dims[:dim])
    steps = [n.strides[at] for n in lo.arena.loads(value.expr) if n.strides[at]]
    return bool(steps) and all(s < 0 for s in steps)


def _flipped(lo: Lowering, value: Value, dim: int) -> Value:
    size = value.shape[dim]
    return views.take(lo.arena, value, dim, size - 1, size, -1)


def _scan(kind: Literal["cumsum", "cumprod"]) -> Callable[..., object]:
    def build(lo: Lowering, self: Value, dim: int, dtype: object = None) -> Value:
        if dtype is not None and str(dtype).removeprefix("torch.") != self.dtype:
            raise NotRepresentableError("a scan in another dtype")
        if not self.dims or self.shape[dim % len(self.dims)] == 1:
            return self
        dim %= len(self.dims)
        value, name = self, self.dtype
        if kind_of(name) != "f":
            value, name = Value(self.dims, as_int(lo.arena, Tensor(self.expr)), "int64"), "int64"
        if _backwards(lo, value, dim):
            reverse = lo.scan(f"{kind}_reverse", _flipped(lo, value, dim), dim, name)  # type: ignore[arg-type]
            return _flipped(lo, reverse, dim)
        return lo.scan(kind, value, dim, name)

    return build


def scanned_after_zeros(lo: Lowering, zeros: Value, sums: Value, dim: int) -> Value | None:
    """The tensor whose sums zeros before `sums` are the first of: what makes a scan exclusive; None for no such."""
    node = lo.arena.nodes[sums.expr]
    if lo.scalar_of(zeros) != 0 or not isinstance(node, Load) or not lo.is_plain(sums):
        return None
    found = lo.scans.get(node.buf)
    if found is None or found[0] != "cumsum" or found[2] != dim or found[1].shape != sums.shape:
        return None
    return found[1]


SCAN_OPS: dict[str, Callable[..., object]] = {"cumsum": _scan("cumsum"), "cumprod": _scan("cumprod")}
