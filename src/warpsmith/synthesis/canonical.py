"""A traced graph in a form that neither sizes, names, views, helpers nor the order of statements change.

A node is a label with operands. The label keeps what the operator does: its name, axes with the rank that they count
in, constants that the task's text states, the kind of a convolution. It drops sizes, names and `eps`.
"""

import ast
import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from warpsmith.synthesis.fx_shapes import (
    axis,
    changes_nothing,
    dtype_kind,
    known_number,
    name_of,
    order_of,
    shape_of,
    stretched,
)
from warpsmith.synthesis.graph import Trace

VIEWS = frozenset(
    """
    alias detach clone contiguous view _unsafe_view reshape expand unsqueeze squeeze lift_fresh lift_fresh_copy
    view_copy expand_copy _reshape_alias flatten unflatten
    """.split()
)
"""Left out: what they change is seen in the ranks, axes and broadcasts of what follows."""
COMMUTATIVE = frozenset(
    "add mul minimum maximum eq ne logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor".split()
)
ARITHMETIC = frozenset(
    "add sub mul div pow rsub remainder fmod gt ge lt le eq ne minimum maximum where".split()
)
"""Scalars of these may come from sizes, such as the square root of a head's width."""
PERMUTES = frozenset(
    "permute transpose t movedim numpy_T swapaxes permute_copy transpose_copy t_copy".split()
)
REDUCTIONS = frozenset(
    "sum mean amax amin prod any all logsumexp var std argmax argmin max min median".split()
)
_KEPT_INTEGERS = frozenset("correction diagonal reduction".split())
_AXES = frozenset("dim dims dim0 dim1".split())
_STEPS = frozenset("stride dilation".split())
_DROPPED = frozenset("eps keepdim dtype layout device pin_memory memory_format generator".split())


@dataclass
class Canonical:
    """Nodes in topological order: `(label, operands)`, operands as places in the list."""

    nodes: list[tuple[tuple, tuple[int, ...]]] = field(default_factory=list)
    outputs: tuple[int, ...] = ()


def canonical(trace: Trace, code: str) -> Canonical:
    """The canonical graph of a trace of the task `code`; dead code is dropped, equal computations are one."""
    return _Builder(trace, _Constants.of(code, trace)).build()


def digest(graph: Canonical) -> str:
    """Hex digest of the graph up to isomorphism as Weisfeiler and Lehman's refinement tells graphs apart.

    Nodes are coloured from the leaves up and from the outputs down, twice; the digest is that of the sorted colours.
    """
    colours = [_hash(label) for label, _ in graph.nodes]
    for _ in range(2):
        for place, (label, operands) in enumerate(graph.nodes):
            below = [colours[operand] for operand in operands]
            colours[place] = _hash((colours[place], sorted(below) if _commutes(label) else below))
        above: list[list[tuple[str, int]]] = [[] for _ in graph.nodes]
        for output in graph.outputs:
            above[output].append(("out", 0))
        for place in range(len(graph.nodes) - 1, -1, -1):
            label, operands = graph.nodes[place]
            colours[place] = _hash((colours[place], sorted(above[place])))
            for position, operand in enumerate(operands):
                above[operand].append((colours[place], 0 if _commutes(label) else position))
    return _hash(tuple(sorted(colours)))


def _hash(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:32]


def _commutes(label: tuple) -> bool:
    return label[0] in COMMUTATIVE


@dataclass(frozen=True)
class _Constants:
    """Which numbers of a graph are constants of the task, and which come from its sizes."""

    stated: frozenset[float]
    sizes: frozenset[int]
    """Integers at module level, in `get_inputs` and `get_init_inputs`."""
    dimensions: frozenset[int]

    @classmethod
    def of(cls, code: str, trace: Trace) -> "_Constants":
        stated: set[float] = set()
        sizes: set[int] = set()
        for node in ast.parse(code).body:
            inner = isinstance(node, ast.ClassDef) or (
                isinstance(node, ast.FunctionDef) and node.name not in ("get_inputs", "get_init_inputs")
            )
            for child in ast.walk(node):
                if isinstance(child, ast.Constant) and type(child.value) in (int, float):
                    if inner or isinstance(child.value, float):
                        stated.add(float(child.value))
                    else:
                        sizes.add(child.value)
        shapes = (shape_of(node) or () for node in trace.graph_module.graph.nodes)
        return cls(frozenset(stated), frozenset(sizes), frozenset(size for shape in shapes for size in shape))

    def label(self, value: float) -> object:
        """The number where the task's text states it and it is no size; the word `size` otherwise."""
        if isinstance(value, bool) or value in (0, 1, -1, math.inf, -math.inf) or value != value:
            return repr(float(value))
        if float(value) in self.stated or -float(value) in self.stated:
            return f"{value:.6g}"
        if float(value).is_integer() and int(value) in self.sizes - self.dimensions:
            return f"{value:.6g}"
        return "size"


class _Builder:
    """Turns nodes of a traced graph, one after another, into canonical ones."""

    def __init__(self, trace: Trace, constants: _Constants) -> None:
        self.trace = trace
        self.constants = constants
        self.nodes: list[tuple[tuple, tuple[int, ...]]] = []
        self.colour: list[str] = []
        self.known: dict[tuple, int] = {}
        self.place: dict[Any, int] = {}
        self.numbers: dict[int, float] = {}
        """Values of nodes that are a single known number."""

    def build(self) -> Canonical:
        placeholders = 0
        outputs: list[int] = []
        for node in self.trace.graph_module.graph.nodes:
            if node.op == "placeholder":
                kind = "weight" if placeholders < self.trace.weights else "input"
                placeholders += 1
                self.place[node] = self.add((kind, dtype_kind(node)), (), unique=True)
            elif node.op == "get_attr":
                self.place[node] = self.attribute(node)
            elif node.op == "call_function":
                self.place[node] = self.call(node)
            elif node.op == "output":
                outputs = [self.place[n] for n in node.all_input_nodes]
        return self.live(outputs)

    def add(self, label: tuple, operands: Sequence[int], *, unique: bool = False) -> int:
        """The place of a node: a new one, or that of an equal one."""
        if _commutes(label):
            operands = sorted(operands, key=lambda place: (self.colour[place], place))
        key = (label, tuple(operands))
        if not unique and key in self.known:
            return self.known[key]
        self.nodes.append(key)
        self.colour.append(_hash((label, [self.colour[o] for o in operands])))
        self.known[key] = len(self.nodes) - 1
        return len(self.nodes) - 1

    def attribute(self, node: Any) -> int:
        value = getattr(self.trace.graph_module, str(node.target), None)
        number = known_number(value)
        if number is None:
            return self.add(("constant", dtype_kind(node)), (), unique=True)
        place = self.add(("number", self.constants.label(number)), ())
        self.numbers[place] = number
        return place

    def call(self, node: Any) -> int:
        name = name_of(node.target)
        if name in VIEWS or changes_nothing(name, node):
            return self.place[node.all_input_nodes[0]]
        special: Callable[[Any], int | None] | None = getattr(self, f"on_{name}", None)
        if special is not None and (place := special(node)) is not None:
            return place
        if name in PERMUTES:
            return self.permute(node)
        if name in ARITHMETIC:
            return self.arithmetic(name, node)
        return self.add((name, *self.attributes(name, node)), [self.place[n] for n in node.all_input_nodes])

    # --- operators that need more than their arguments

    def on_getitem(self, node: Any) -> int | None:
        source, index = node.args
        return self.add(("item", index), [self.place[source]]) if source in self.place else None

    def on__to_copy(self, node: Any) -> int:
        source = node.all_input_nodes[0]
        if dtype_kind(source) == dtype_kind(node):
            return self.place[source]
        return self.add(("cast", dtype_kind(node)), [self.place[source]])

    def on_mm(self, node: Any) -> int:
        return self.add(("mm",), [self.place[n] for n in node.args[:2]])

    def on_addmm(self, node: Any) -> int:
        return self.product("mm", node)

    def on_baddbmm(self, node: Any) -> int:
        return self.product("bmm", node)

    def product(self, name: str, node: Any) -> int:
        bias, left, right = (self.place[n] for n in node.args[:3])
        scales = {key: node.kwargs.get(key, 1) for key in ("alpha", "beta")}
        product = self.scaled(self.add((name,), [left, right]), scales["alpha"])
        return self.add(("add", "0", "0"), [product, self.scaled(bias, scales["beta"])])

    def scaled(self, place: int, factor: float) -> int:
        if factor == 1:
            return place
        number = self.add(("number", self.constants.label(factor)), ())
        return self.add(("mul", "0", "0"), [place, number])

    def on_slice(self, node: Any) -> int:
        source, dim, start, end, step = (*node.args, *(None,) * 5)[:5]
        shape = shape_of(source) or ()
        size = shape[dim or 0] if shape else 0
        places = ("zero" if not start else "some", "end" if end is None or end >= size else "some", step or 1)
        return self.add(("slice", axis(dim or 0, len(shape)), *places), [self.place[source]])

    def on_select(self, node: Any) -> int:
        source, dim, index = node.args
        shape = shape_of(source) or ()
        if shape and index in (-1, shape[dim] - 1) and index:
            index = "last"
        where = index if index in (0, "last") else "some"
        return self.add(("select", axis(dim, len(shape)), where), [self.place[source]])

    def on_convolution(self, node: Any) -> int:
        data, weight, bias, stride, padding, dilation, transposed, _, groups = node.args
        shape = shape_of(weight) or ()
        width = (shape_of(data) or (0, 0))[1]
        group = "one" if groups == 1 else "each" if groups == width else "some"
        label = (
            "convolution",
            len(stride),
            "point" if all(size == 1 for size in shape[2:]) else "window",
            "strided" if any(size > 1 for size in stride) else "dense",
            "padded" if any(padding) else "valid",
            "dilated" if any(size > 1 for size in dilation) else "close",
            bool(transposed),
            group,
        )
        place = self.add(label, [self.place[data], self.place[weight]])
        if bias is None:
            return place
        return self.add(("add", "0", f"{len(stride)}"), [place, self.place[bias]])

    def permute(self, node: Any) -> int:
        source = node.all_input_nodes[0]
        order = order_of(node)
        if order is None:
            return self.add(("permute", "?"), [self.place[source]])
        if source.op == "call_function" and name_of(source.target) in PERMUTES:
            inner = order_of(source)
            if inner is not None and len(inner) == len(order):
                order = tuple(inner[i] for i in order)
                source = source.all_input_nodes[0]
        if order == tuple(sorted(order)):
            return self.place[source]
        return self.add(("permute", order), [self.place[source]])

    def arithmetic(self, name: str, node: Any) -> int:
        """Scalars become operands; `a - b` of a swapped form, division by a number and squares become one form."""
        shape = shape_of(node) or ()
        operands: list[int] = []
        for argument in node.args:
            if hasattr(argument, "op"):
                operands.append(self.place[argument])
            elif isinstance(argument, int | float):
                number = argument
                if name == "div" and len(operands) == 1 and argument:
                    operands.append(self.number(argument, reciprocal=True))
                    name = "mul"
                    continue
                operands.append(self.number(number))
        if name == "rsub":
            name, operands = "sub", operands[::-1]
        if name == "mul" and len(operands) == 2 and operands[0] == operands[1]:
            name, operands = "pow", [operands[0], self.number(2, stated=True)]
        if name == "pow" and self.numbers.get(operands[-1]) == 2:
            operands[-1] = self.number(2, stated=True)
        if same := self.neutral(name, operands):
            return same[0]
        breadth = {self.place[a]: stretched(shape_of(a), shape) for a in node.args if hasattr(a, "op")}
        marks = sorted(str(breadth.get(o, 0)) for o in operands) if name in COMMUTATIVE else None
        marks = marks or [str(breadth.get(o, 0)) for o in operands]
        extra = [str(node.kwargs["alpha"])] if node.kwargs.get("alpha", 1) != 1 else []
        extra += [str(node.kwargs["rounding_mode"])] if node.kwargs.get("rounding_mode") else []
        return self.add((name, *marks, *extra), operands)

    def number(self, value: float, *, reciprocal: bool = False, stated: bool = False) -> int:
        label = repr(value) if stated else self.constants.label(value)
        if reciprocal and label != "size":
            label = f"{1 / value:.6g}"
        elif label != "size":
            label = f"{float(value):.6g}"
        place = self.add(("number", label), ())
        self.numbers[place] = 1 / value if reciprocal else value
        return place

    def neutral(self, name: str, operands: list[int]) -> list[int]:
        """The one operand that `x + 0`, `x * 1`, `x ** 1` come to; nothing for other arithmetic."""
        unit = {"add": 0, "sub": 0, "mul": 1, "div": 1, "pow": 1}.get(name)
        if unit is None or len(operands) != 2:
            return []
        left, right = operands
        if self.numbers.get(right) == unit:
            return [left]
        return [right] if name in ("add", "mul") and self.numbers.get(left) == unit else []

    def attributes(self, name: str, node: Any) -> tuple:
        """What an operator's other arguments say, sizes dropped; in the order of its schema."""
        schema = getattr(node.target, "_schema", None)
        if schema is None:
            return ()
        source = node.all_input_nodes[0] if node.all_input_nodes else None
        rank = len(shape_of(source) or ()) if source is not None else 0
        given = dict(zip((a.name for a in schema.arguments), node.args, strict=False)) | dict(node.kwargs)
        found: list[object] = []
        for argument in schema.arguments:
            value = given.get(argument.name, argument.default_value)
            if argument.name not in _DROPPED and (word := self.word(name, argument, value, rank)) is not None:
                found.append((argument.name, word))
        return tuple(found)

    def word(self, name: str, argument: Any, value: Any, rank: int) -> object | None:
        kind = str(argument.type)
        if hasattr(value, "op") or (isinstance(value, list | tuple) and any(hasattr(v, "op") for v in value)):
            return None
        if argument.name in _AXES or argument.name == "normalized_shape":
            if argument.name == "normalized_shape":
                return len(value)
            axes = value if isinstance(value, list | tuple) else [value]
            axes = [a for a in axes if a is not None]
            every = not axes or len({a % max(rank, 1) for a in axes}) == rank
            if name in REDUCTIONS and every:
                return "all"
            return (rank, *sorted(a % max(rank, 1) for a in axes))
        if isinstance(value, bool | str) or value is None:
            return value
        if isinstance(value, list | tuple):
            if argument.name in _STEPS:
                return any(v > 1 for v in value)
            return tuple((v > 0) - (v < 0) for v in value) if argument.name in ("pad", "padding") else None
        if (
            argument.name in _KEPT_INTEGERS
            or "Scalar" in kind
            or "number" in kind
            or isinstance(value, float)
        ):
            return f"{float(value):.6g}" if isinstance(value, int | float) else None
        return None

    def live(self, outputs: list[int]) -> Canonical:
        """The graph without what no output needs."""
        needed = set(outputs)
        for place in range(len(self.nodes) - 1, -1, -1):
            if place in needed:
                needed.update(self.nodes[place][1])
        order = {old: new for new, old in enumerate(sorted(needed))}
        nodes = [(self.nodes[p][0], tuple(order[o] for o in self.nodes[p][1])) for p in sorted(needed)]
        return Canonical(nodes, tuple(order[o] for o in outputs))
