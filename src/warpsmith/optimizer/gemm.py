"""Matrix products: through cuBLASLt, or as fused reductions where one side is a vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from warpsmith.optimizer import views
from warpsmith.optimizer.ir import Load, NotRepresentableError, TensorRef, Value
from warpsmith.optimizer.library import LIBRARY_DTYPES, Gemm, Operand, in_buffer, library_step
from warpsmith.optimizer.lowering import Lowering

Scalar = int | float


def product(lo: Lowering, left: Value, right: Value) -> Value:
    """left @ right for at least two dimensions on both sides; batches are broadcast."""
    _check(left, right)
    rows, inner = left.shape[-2:]
    columns = right.shape[-1]
    batch = _broadcast(left.shape[:-2], right.shape[:-2])
    shared = prod(right.shape[:-2]) == 1
    if 1 in (rows * prod(left.shape[:-2]) if shared else rows, columns, inner):
        return _vector_product(lo, left, right)
    left, right = _in_memory(lo, left), _in_memory(lo, right)
    if shared:
        # one right side for all: the batch is more rows, where memory allows
        flat = _merged(lo, left, (prod(left.shape[:-1]), inner))
        if flat is not None:
            one = views.reshape(lo.arena, right, (inner, columns))
            return _reshaped(lo, _multiply(lo, flat, one, 1), (*batch, rows, columns))
    count = prod(batch)
    if count == 1:
        left, right = (views.reshape(lo.arena, v, v.shape[-2:]) for v in (left, right))
    else:
        left, right = (_one_batch(lo, v, batch) for v in (left, right))
    return _reshaped(lo, _multiply(lo, left, right, count), (*batch, rows, columns))


def _check(left: Value, right: Value) -> None:
    if left.dtype != right.dtype or left.dtype not in LIBRARY_DTYPES:
        raise NotRepresentableError("a product of these dtypes")
    if left.shape[-1] != right.shape[-2]:
        raise NotRepresentableError("a product of shapes that do not fit")


def _broadcast(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(len(left), len(right))
    pairs = zip((1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right, strict=True)
    out = []
    for a, b in pairs:
        if a != b and 1 not in (a, b):
            raise NotRepresentableError("batches that do not fit")
        out.append(max(a, b))
    return tuple(out)


def _vector_product(lo: Lowering, left: Value, right: Value) -> Value:
    """A product with a side of one row or column: memory-bound, so it is ours, with what feeds and follows it."""
    wide = views.unsqueeze(left, len(left.dims))
    tall = views.unsqueeze(right, len(right.dims) - 2)
    both = lo.binary("mul", wide, tall)
    return lo.reduce("sum", both, -2, False)


def _in_memory(lo: Lowering, value: Value) -> Value:
    """`value` where it is some view of a buffer, else the buffer that it is computed into."""
    node = lo.arena.nodes[value.expr]
    if isinstance(node, Load) and lo.program.buffers[node.buf].dtype == value.dtype:
        return value
    return in_buffer(lo, value)


def _merged(lo: Lowering, value: Value, shape: tuple[int, ...]) -> Value | None:
    """`value` in `shape` where that is a strided view of the same memory."""
    try:
        merged = views.coalesced(lo.arena, views.reshape(lo.arena, value, shape))
    except NotRepresentableError:
        return None
    return merged if all(len(d) <= 1 for d in merged.dims) else None


def _one_batch(lo: Lowering, value: Value, batch: tuple[int, ...]) -> Value:
    """`value` with its leading dimensions broadcast and made one."""
    matrix = value.shape[-2:]
    if prod(value.shape[:-2]) == 1:
        flat = views.reshape(lo.arena, value, (1, *matrix))
        return views.expand(lo.arena, flat, (prod(batch), *matrix))
    full = views.expand(lo.arena, value, (*batch, *matrix))
    merged = _merged(lo, full, (prod(batch), *matrix))
    return merged if merged is not None else _reshaped(lo, in_buffer(lo, full), (prod(batch), *matrix))


def _reshaped(lo: Lowering, value: Value, shape: tuple[int, ...]) -> Value:
    if value.shape == shape:
        return value
    if lo.is_plain(value):
        return lo.load(lo.program.buffers[lo.arena.nodes[value.expr].buf], shape)  # type: ignore[union-attr]
    return views.reshape(lo.arena, value, shape)


def _multiply(lo: Lowering, left: Value, right: Value, batches: int) -> Value:
    """The library step for matrices, or stacks of `batches` of them."""
    first, left_at = _operand(lo, left)
    second, right_at = _operand(lo, right)
    rows, inner = left.shape[-2:]
    columns = right.shape[-1]
    spec = Gemm(rows, columns, inner, batches, left.dtype, left_at, right_at)
    shape = (rows, columns) if batches == 1 else (batches, rows, columns)
    return library_step(lo, shape, spec, (first, second))


def _operand(lo: Lowering, value: Value) -> tuple[TensorRef, Operand]:
    """A matrix as the library reads it; copied first where neither its rows nor its columns are contiguous."""
    ref = lo.tensor_ref(value)
    found = _layout(ref)
    if found is None:
        ref = lo.tensor_ref(in_buffer(lo, value))
        found = _layout(ref)
        assert found is not None
    return ref, found


def _layout(ref: TensorRef) -> Operand | None:
    rows, columns = ref.shape[-2:]
    down, along = ref.strides[-2:]
    step = ref.strides[0] if len(ref.shape) == 3 else 0
    if along == 1 and down >= columns:
        return Operand(False, down, step)
    if down == 1 and along >= rows:
        return Operand(True, along, step)
    return None


def _matmul(lo: Lowering, self: Value, other: Value) -> Value:
    first, second = len(self.dims) == 1, len(other.dims) == 1
    left = views.unsqueeze(self, 0) if first else self
    right = views.unsqueeze(other, 1) if second else other
    if not left.dims or not right.dims:
        raise NotRepresentableError("a product of scalars")
    out = product(lo, left, right)
    rank = len(out.dims)
    return views.squeeze(out, [rank - 2] * first + [rank - 1] * second)


def _mm(lo: Lowering, self: Value, mat2: Value) -> Value:
    return product(lo, self, mat2)


def _mv(lo: Lowering, self: Value, vec: Value) -> Value:
    return _matmul(lo, self, vec)


def _dot(lo: Lowering, self: Value, tensor: Value) -> Value:
    return _matmul(lo, self, tensor)


def _linear(lo: Lowering, input: Value, weight: Value, bias: Value | None = None) -> Value:
    turned = views.permute(lo.arena, weight, [1, 0]) if len(weight.dims) == 2 else weight
    out = _matmul(lo, input, turned)
    return out if bias is None else lo.binary("add", out, bias)


def _added(lo: Lowering, out: Value, self: Value, beta: Scalar, alpha: Scalar) -> Value:
    """beta · self + alpha · out; `self` is not read where beta is 0, as PyTorch has it."""
    if alpha != 1:
        out = lo.binary("mul", out, float(alpha))
    if beta == 0:
        return out
    if beta != 1:
        self = lo.binary("mul", self, float(beta))
    return lo.binary("add", out, self)


def _addmm(lo: Lowering, self: Value, mat1: Value, mat2: Value, beta: Scalar = 1, alpha: Scalar = 1) -> Value:
    return _added(lo, product(lo, mat1, mat2), self, beta, alpha)


def _baddbmm(
    lo: Lowering, self: Value, batch1: Value, batch2: Value, beta: Scalar = 1, alpha: Scalar = 1
) -> Value:
    return _added(lo, product(lo, batch1, batch2), self, beta, alpha)


def _addmv(lo: Lowering, self: Value, mat: Value, vec: Value, beta: Scalar = 1, alpha: Scalar = 1) -> Value:
    return _added(lo, _matmul(lo, mat, vec), self, beta, alpha)


def _einsum(lo: Lowering, equation: str, tensors: Sequence[Value], path: object = None) -> Value:
    """A product of two tensors, each of its indices once a side; what else einsum does stays torch's."""
    sides, arrow, out = equation.replace(" ", "").partition("->")
    terms = sides.split(",")
    if len(terms) != 2 or len(tensors) != 2 or not arrow or "." in equation:
        raise NotRepresentableError("an einsum that is no product of two tensors")
    first, second = terms
    if any(len(set(t)) != len(t) for t in (first, second, out)):
        raise NotRepresentableError("an einsum over a diagonal")
    shared = [c for c in first if c in second]
    batch, inner = [c for c in shared if c in out], [c for c in shared if c not in out]
    rows, columns = [c for c in first if c not in shared], [c for c in second if c not in shared]
    if any(c not in out for c in (*rows, *columns)):
        raise NotRepresentableError("an einsum with a sum over one side")
    left = _grouped(lo, tensors[0], first, (batch, rows, inner))
    right = _grouped(lo, tensors[1], second, (batch, inner, columns))
    size = dict(zip(first, tensors[0].shape, strict=True)) | dict(zip(second, tensors[1].shape, strict=True))
    made = [*batch, *rows, *columns]
    whole = _reshaped(lo, product(lo, left, right), tuple(size[c] for c in made))
    return views.permute(lo.arena, whole, [made.index(c) for c in out])


def _grouped(lo: Lowering, value: Value, indices: str, groups: Sequence[Sequence[str]]) -> Value:
    """`value` as a stack of matrices: each group of its indices made one dimension."""
    turned = views.permute(lo.arena, value, [indices.index(c) for group in groups for c in group])
    shape = tuple(prod(value.shape[indices.index(c)] for c in group) for group in groups)
    merged = _merged(lo, turned, shape)
    return merged if merged is not None else _reshaped(lo, in_buffer(lo, turned), shape)


GEMMS: dict[str, Callable[..., object]] = {
    "matmul": _matmul,
    "mm": _mm,
    "bmm": _mm,
    "mv": _mv,
    "dot": _dot,
    "linear": _linear,
    "addmm": _addmm,
    "baddbmm": _baddbmm,
    "addmv": _addmv,
    "einsum": _einsum,
}
