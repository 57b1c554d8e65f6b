"""What lowering an operator needs: values, pointwise application, reductions and materialisation."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from warpsmith.optimizer import views
from warpsmith.optimizer.ir import (
    ADDRESS,
    C_TYPES,
    Arena,
    Buffer,
    Const,
    Define,
    Expr,
    Iota,
    Load,
    NotRepresentableError,
    Op,
    Program,
    Scan,
    TensorRef,
    Value,
    contiguous_strides,
    kind_of,
)
from warpsmith.optimizer.pointwise import POINTWISE, Tensor

Operand = Value | int | float | bool | None
REDUCTIONS = {"sum": "sum", "max": "max", "amax": "max", "min": "min", "amin": "min", "prod": "prod"}


class Lowering:
    """Builds a Program step by step. Raises NotRepresentableError for what the IR does not hold."""

    def __init__(self) -> None:
        self.arena = Arena()
        self.program = Program(self.arena)
        self._stored: dict[tuple[object, ...], Value] = {}
        self.scans: dict[str, tuple[str, Value, int]] = {}
        """What each scan's buffer holds: (kind, scanned value, dimension)."""
        self._temps = 0

    def new_buffer(self, shape: Sequence[int], dtype: str) -> Buffer:
        """A fresh temporary."""
        buffer = Buffer(f"t{self._temps}", tuple(shape), dtype, "temp")
        self._temps += 1
        self.program.buffers[buffer.name] = buffer
        return buffer

    def load(self, buffer: Buffer, shape: Sequence[int] | None = None) -> Value:
        """The whole of a contiguous buffer, seen in `shape`."""
        shape = buffer.shape if shape is None else shape
        sizes = tuple(s for s in shape if s > 1)
        kind = kind_of(buffer.dtype)
        expr = self.arena.add(Load(buffer.name, 0, contiguous_strides(sizes), kind))
        return Value(tuple((s,) if s > 1 else () for s in shape), expr, buffer.dtype)

    def constant(self, value: float | int | bool, shape: Sequence[int], dtype: str) -> Value:
        """A tensor filled with one value."""
        typed = bool(value) if dtype == "bool" else int(value) if dtype.startswith("int") else float(value)
        return Value(tuple((s,) if s > 1 else () for s in shape), self.arena.const(typed), dtype)

    def check(self, value: Value) -> Value:
        """`value`, where the IR can compute with it."""
        if value.dtype not in C_TYPES:
            raise NotRepresentableError(f"dtype {value.dtype}")
        return value

    def apply(self, name: str, dtype: str | None = None, /, **operands: Operand) -> Value:
        """A pointwise operator by name on broadcast operands, given by schema name."""
        tensors = {k: self.check(v) for k, v in operands.items() if isinstance(v, Value)}
        dims, exprs = views.align(self.arena, list(tensors.values()))
        given: dict[str, object] = dict(operands)
        given.update({k: Tensor(e) for k, e in zip(tensors, exprs, strict=True)})
        expr = POINTWISE[name](self.arena, **given)
        if dtype is None:
            kind = self.arena.nodes[expr].kind
            dtype = {"f": "float32", "i": "int64", "b": "bool"}[kind]
        return Value(dims, expr, dtype)

    def binary(self, name: str, left: Value, right: Operand) -> Value:
        """Arithmetic on a value and a value or scalar."""
        return self.apply(name, self=left, other=right)

    def unary(self, name: str, value: Value) -> Value:
        """A function of one value."""
        return self.apply(name, self=value)

    def iota(self, shape: Sequence[int], dim: int, offset: int = 0, step: int = 1) -> Value:
        """`offset + step · index` along one dimension of `shape`, the same along the others."""
        dims = tuple((s,) if s > 1 else () for s in shape)
        strides = tuple(step if d == dim else 0 for d, s in enumerate(shape) if s > 1)
        return Value(dims, self.arena.add(Iota(offset, strides)), "int64")

    def within(self, place: Value, size: int) -> Value:
        """0 <= place < size, for places that 32 bits hold."""
        expr = self.arena.op("within", place.expr, self.arena.const(int(size)), kind="b")
        return Value(place.dims, expr, "bool")

    def pick(self, source: Value, index: Value, guard: Value | None = None) -> Value:
        """`source` (seen flat) at `index`; 0 where the guard does not hold, and nothing is read there."""
        whole = self.stored(source)
        node = self.arena.nodes[whole.expr]
        assert isinstance(node, Load)
        buffer = self.program.buffers[node.buf]
        given = [index] if guard is None else [index, guard]
        dims, exprs = views.align(self.arena, given)
        kind = kind_of(buffer.dtype)
        rank = sum(len(d) for d in dims)
        address = self.arena.add(Load(buffer.name, ADDRESS, (0,) * rank, kind))
        name = "pick" if buffer.numel < 1 << 31 else "pick_wide"
        held = self.arena.const(True) if guard is None else exprs[1]
        return Value(dims, self.arena.op(name, address, exprs[0], held, kind=kind), buffer.dtype)

    def guarded(self, value: Value, guard: Value) -> Value:
        """`value` with every element read only where `guard` holds (0 is computed with elsewhere)."""
        dims, (expr, held) = views.align(self.arena, [value, guard])

        def change(at: int, node: Expr) -> int | None:
            if isinstance(node, Op) and node.name.startswith("pick"):
                both = self.arena.op("and", held, node.args[2], kind="b")
                return self.arena.op(node.name, node.args[0], node.args[1], both, kind=node.kind)
            if not isinstance(node, Load) or node.is_address or not any(node.strides):
                return None
            address = self.arena.add(Load(node.buf, ADDRESS, (0,) * len(node.strides), node.kind))
            name = "pick" if self.program.buffers[node.buf].numel < 1 << 31 else "pick_wide"
            index = self.arena.add(Iota(node.offset, node.strides))
            return self.arena.op(name, address, index, held, kind=node.kind)

        return Value(dims, self.arena.rewrite(expr, change), value.dtype)

    def dims_of(self, value: Value, dim: object) -> list[int]:
        """Normalised dimensions; None or an empty list means all."""
        rank = len(value.dims)
        if dim is None or (isinstance(dim, list | tuple) and not dim):
            return list(range(rank))
        chosen = [dim] if isinstance(dim, int) else list(dim)  # type: ignore[call-overload]
        return sorted({d % rank if rank else 0 for d in chosen}) if rank else []

    def reduce(self, kind: str, value: Value, dim: object, keepdim: bool) -> Value:
        """sum, max, min or prod over dimensions; over dimensions of size 1 it is the value itself."""
        self.check(value)
        dims = self.dims_of(value, dim)
        if kind in ("sum", "prod") and kind_of(value.dtype) != "f":
            raise NotRepresentableError("an integer sum")
        kept = tuple(() if i in dims else d for i, d in enumerate(value.dims))
        mask = tuple(i in dims for i, d in enumerate(value.dims) for _ in d)
        if any(mask):
            if kind_of(value.dtype) == "b":
                raise NotRepresentableError("a reduction of booleans")
            value = Value(kept, self._reduced(kind, value, mask), value.dtype)
        elif self.arena.label is not None:
            self.program.notes.append(f"{self.arena.label[1]} over a dimension of size 1 dropped")
        return value if keepdim else views.squeeze(value, dims)

    def _reduced(self, kind: str, value: Value, mask: tuple[bool, ...]) -> int:
        """The load of a reduction's result, over the kept factors in their logical order."""
        key = (kind, value.expr, value.sizes, mask)
        if key not in self._stored:
            order = self._memory_order(value)
            sizes = tuple(value.sizes[i] for i in order)
            masked = tuple(mask[i] for i in order)
            kept = [i for i in order if not mask[i]]
            dtype = value.dtype if kind_of(value.dtype) != "f" else "float32"
            buffer = self.new_buffer([value.sizes[i] for i in kept], dtype)
            expr = self.arena.restride(value.expr, lambda o, s: (o, tuple(s[i] for i in order)))
            define = Define(buffer.name, kind, sizes, masked, expr, self.arena.label)  # type: ignore[arg-type]
            self.program.steps.append(define)
            by_factor = dict(zip(kept, contiguous_strides(buffer.shape), strict=True))
            strides = tuple(by_factor[i] for i in sorted(kept))
            node = Load(buffer.name, 0, strides, kind_of(dtype))
            self._stored[key] = Value((), self.arena.add(node), dtype)
        return self._stored[key].expr

    def _memory_order(self, value: Value) -> list[int]:
        """Factors in the order in which the one tensor that is read whole lies in memory."""
        order = list(range(len(value.sizes)))
        whole = [n.strides for n in self.arena.loads(value.expr) if all(n.strides)]
        if whole and all(sorted(order, key=lambda i: -abs(s[i])) == order for s in whole[1:]):
            order.sort(key=lambda i: -abs(whole[0][i]))
        return order

    def scan(self, kind: Scan, value: Value, dim: int, dtype: str) -> Value:
        """Every element combined with those before it (after it: reverse) along one dimension, as a buffer."""
        self.check(value)
        key = (kind, value.expr, value.dims, dim, dtype)
        if key not in self._stored:
            value = views.coalesced(self.arena, value)
            buffer = self.new_buffer(value.shape, dtype)
            mask = tuple(d == dim for d, factors in enumerate(value.dims) for _ in factors)
            define = Define(buffer.name, kind, value.sizes, mask, value.expr, self.arena.label)
            self.program.steps.append(define)
            self._stored[key] = self.load(buffer)
            self.scans[buffer.name] = (kind, value, dim)
        return self._stored[key]

    def mean(self, value: Value, dim: object, keepdim: bool) -> Value:
        """Mean over dimensions: the sum divided by the count."""
        count = prod(value.shape[d] for d in self.dims_of(value, dim))
        total = self.reduce("sum", value, dim, keepdim)
        return total if count == 1 else self.binary("div", total, float(count))

    def moments(self, value: Value, dim: object) -> tuple[Value, Value]:
        """(value − mean, biased variance) with dimensions kept."""
        centred = self.binary("sub", value, self.mean(value, dim, True))
        return centred, self.mean(self.binary("mul", centred, centred), dim, True)

    def is_plain(self, value: Value) -> bool:
        """Whether the value is a buffer in memory order."""
        node = self.arena.nodes[value.expr]
        return (
            isinstance(node, Load)
            and node.offset == 0
            and node.strides == contiguous_strides(value.sizes)
            and self.program.buffers[node.buf].numel == prod(value.shape)
            and self.program.buffers[node.buf].dtype == value.dtype
        )

    def stored(self, value: Value) -> Value:
        """The value as a contiguous buffer, computed at most once."""
        if self.is_plain(value):
            node = self.arena.nodes[value.expr]
            assert isinstance(node, Load)
            return self.load(self.program.buffers[node.buf], value.shape)
        self.check(value)
        key = ("pointwise", value.expr, value.dims, value.dtype)
        if key not in self._stored:
            buffer = self.new_buffer(value.shape, value.dtype)
            sizes = value.sizes
            self.program.steps.append(
                Define(buffer.name, "pointwise", sizes, (False,) * len(sizes), value.expr, self.arena.label)
            )
            self._stored[key] = self.load(buffer)
        return self._stored[key]

    def shared(self, value: Value) -> Value:
        """The value named as a buffer where computing it anew for each reader would read memory twice."""
        total = prod(value.shape)
        if not isinstance(self.arena.nodes[value.expr], Op) or value.dtype not in C_TYPES:
            return value
        large = {
            n.buf
            for n in self.arena.loads(value.expr)
            if 2 * prod(s for s, st in zip(value.sizes, n.strides, strict=True) if st) >= total
        }
        return self.stored(value) if len(large) > 1 else value

    def tensor_ref(self, value: Value) -> TensorRef:
        """The value as a (possibly strided) view of a buffer, computing it first where it is none."""
        merged = views.coalesced(self.arena, value) if value.dtype in C_TYPES else value
        node = self.arena.nodes[merged.expr]
        if (
            not isinstance(node, Load)
            or self.program.buffers[node.buf].dtype != value.dtype
            or any(len(d) > 1 for d in merged.dims)
            or any(s < 0 for s in node.strides)
        ):
            merged = self.stored(value)
            node = self.arena.nodes[merged.expr]
            assert isinstance(node, Load)
        own = iter(node.strides)
        plain = contiguous_strides(merged.shape)
        strides = tuple(next(own) if d else plain[i] for i, d in enumerate(merged.dims))
        return TensorRef(node.buf, merged.shape, strides, node.offset)

    def scalar_of(self, value: Value) -> float | int | bool | None:
        """The constant that a value is everywhere, if it is one."""
        node = self.arena.nodes[value.expr]
        return node.value if isinstance(node, Const) else None
