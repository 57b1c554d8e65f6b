"""The small IR between capture and CUDA C++: expressions over strided loads, and steps that define buffers.

Shapes are static. A value's index space is a list of *factors* (sizes of at least 2): a logical dimension of
size 1 has none, and a reshaped dimension may have several, so that a reshape refines factors and never copies.
Every buffer is contiguous; views are only other strides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Literal, get_args

ADDRESS = -1
"""Offset of a load that stands for its buffer's address: the first operand of a `pick`."""
Kind = Literal["f", "i", "b"]
"""What an expression computes in: float, long long or bool."""

Scan = Literal["cumsum", "cumprod", "cumsum_reverse", "cumprod_reverse"]
SCANS: frozenset[str] = frozenset(get_args(Scan))

C_TYPES = {
    "float32": "float",
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "int64": "int64_t",
    "int32": "int32_t",
    "bool": "bool",
}
ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "bool": 1}


def kind_of(dtype: str) -> Kind:
    """The arithmetic that values of a stored dtype are computed in."""
    return "b" if dtype == "bool" else "i" if dtype.startswith("int") else "f"


class NotRepresentableError(Exception):
    """An operator, dtype or view that the IR does not hold; the operator then stays a plain torch call."""


@dataclass(frozen=True, slots=True)
class Load:
    """One element of a buffer; `strides` go with the factors of the index space, in elements."""

    buf: str
    offset: int
    strides: tuple[int, ...]
    kind: Kind = "f"

    @property
    def is_address(self) -> bool:
        """Whether this names the buffer for a `pick(buffer, index, guard)`, which reads where the guard holds."""
        return self.offset == ADDRESS and not any(self.strides)


@dataclass(frozen=True, slots=True)
class Iota:
    """The integer `offset + Σ index · stride`: what `arange`, `tril` and `triu` need."""

    offset: int
    strides: tuple[int, ...]
    kind: Kind = "i"


@dataclass(frozen=True, slots=True)
class Const:
    """A scalar known at capture."""

    value: float | int | bool
    kind: Kind = "f"


@dataclass(frozen=True, slots=True)
class Op:
    """A scalar function of other expressions (ids in the arena)."""

    name: str
    args: tuple[int, ...]
    kind: Kind = "f"


Expr = Load | Iota | Const | Op


@dataclass
class Arena:
    """Hash-consed expressions: equal expressions have equal ids, so shared subexpressions stay shared."""

    nodes: list[Expr] = field(default_factory=list)
    labels: list[tuple[str, str] | None] = field(default_factory=list)
    """For each expression the captured operator that it came from: (unique name, operator)."""
    label: tuple[str, str] | None = None
    _ids: dict[Expr, int] = field(default_factory=dict)

    def add(self, node: Expr) -> int:
        """Id of `node`, new or already known."""
        known = self._ids.get(node)
        if known is None:
            known = self._ids[node] = len(self.nodes)
            self.nodes.append(node)
            self.labels.append(self.label if isinstance(node, Op) else None)
        return known

    def op(self, name: str, *args: int, kind: Kind = "f") -> int:
        """Id of the application of `name` to `args`."""
        return self.add(Op(name, args, kind))

    def const(self, value: float | int | bool) -> int:
        """Id of a constant of the kind of its Python type."""
        kind: Kind = "b" if isinstance(value, bool) else "i" if isinstance(value, int) else "f"
        return self.add(Const(value, kind))

    def walk(self, root: int, stop: Callable[[int], bool] | None = None) -> Iterator[int]:
        """Ids below `root` in dependency order, each once, without going below ids where `stop` holds."""
        seen: set[int] = set()
        stack: list[tuple[int, bool]] = [(root, False)]
        while stack:
            at, done = stack.pop()
            if done:
                yield at
            elif at not in seen:
                seen.add(at)
                stack.append((at, True))
                node = self.nodes[at]
                if isinstance(node, Op) and not (stop and stop(at)):
                    stack.extend((arg, False) for arg in reversed(node.args))

    def loads(self, root: int) -> list[Load]:
        """Every load below `root`."""
        return [node for at in self.walk(root) if isinstance(node := self.nodes[at], Load)]

    def rewrite(self, root: int, change: Callable[[int, Expr], int | None]) -> int:
        """Rebuild `root`, with every expression for which `change` gives an id replaced by it."""
        made: dict[int, int] = {}
        hit: dict[int, int] = {}

        def replaced(at: int) -> bool:
            if at not in hit:
                new = change(at, self.nodes[at])
                hit[at] = -1 if new is None else new
            return hit[at] >= 0

        for at in list(self.walk(root, replaced)):
            node = self.nodes[at]
            if replaced(at):
                made[at] = hit[at]
            elif isinstance(node, Op):
                previous, self.label = self.label, self.labels[at]
                made[at] = self.add(Op(node.name, tuple(made[a] for a in node.args), node.kind))
                self.label = previous
            else:
                made[at] = at
        return made[root]

    def restride(self, root: int, move: Callable[[int, tuple[int, ...]], tuple[int, tuple[int, ...]]]) -> int:
        """Give every load and iota below `root` a new (offset, strides)."""

        def change(at: int, node: Expr) -> int | None:
            if isinstance(node, Load):
                return self.add(Load(node.buf, *move(node.offset, node.strides), node.kind))
            if isinstance(node, Iota):
                return self.add(Iota(*move(node.offset, node.strides)))
            return None

        return self.rewrite(root, change)


@dataclass(frozen=True, slots=True)
class Buffer:
    """A contiguous tensor. `code` is how forward() names it; only for inputs, parameters and constants."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Literal["input", "state", "temp"]
    code: str = ""

    @property
    def numel(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.numel * ITEM_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class Value:
    """What a captured node computes: `dims` are the factors of each logical dimension, `expr` is over all of them."""

    dims: tuple[tuple[int, ...], ...]
    expr: int
    dtype: str

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical shape."""
        return tuple(map(prod, self.dims))

    @property
    def sizes(self) -> tuple[int, ...]:
        """All factors, outermost first."""
        return tuple(f for dim in self.dims for f in dim)


@dataclass(frozen=True, slots=True)
class Define:
    """A buffer of ours: pointwise over `sizes`, or reduced or scanned over the factors where `mask` is true."""

    buf: str
    kind: Literal["pointwise", "sum", "max", "min", "prod"] | Scan
    sizes: tuple[int, ...]
    mask: tuple[bool, ...]
    expr: int
    label: tuple[str, str] | None = None

    @property
    def is_reduction(self) -> bool:
        """Whether any factor may be reduced."""
        return self.kind != "pointwise" and not self.is_scan

    @property
    def is_scan(self) -> bool:
        """Whether each element is combined with those before it."""
        return self.kind in SCANS


@dataclass(frozen=True, slots=True)
class TensorRef:
    """A tensor in a torch call: a view of a buffer."""

    buf: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class Raw:
    """Python text that stands for itself in a torch call."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """An operator that we do not own: `torch.ops.<target>(*args, **kwargs)`; None in `outs`: not needed."""

    outs: tuple[str | None, ...]
    many: bool
    """Whether the call gives a tuple."""
    target: str
    args: tuple[object, ...]
    kwargs: tuple[tuple[str, object], ...]


Step = Define | Call


@dataclass
class Program:
    """A lowered model: buffers, the steps that fill them in order, and what forward() returns."""

    arena: Arena
    buffers: dict[str, Buffer] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    inputs: list[Buffer | Raw] = field(default_factory=list)
    """forward()'s arguments in order; a Raw is a Python scalar with the value seen at capture."""
    result: object = None
    """Nested tuples, lists and dicts of TensorRef and Raw."""
    notes: list[str] = field(default_factory=list)


def contiguous_strides(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def tensor_refs(tree: object) -> Iterator[TensorRef]:
    """Every TensorRef in nested tuples, lists and dicts."""
    if isinstance(tree, TensorRef):
        yield tree
    elif isinstance(tree, list | tuple):
        for item in tree:
            yield from tensor_refs(item)
    elif isinstance(tree, dict):
        yield from tensor_refs(tuple(tree.values()))
