"""Algebra on the captured graph: rewrites that are exact in real arithmetic.

- a matrix product with a diagonal matrix becomes a scaling of rows or columns;
- a matrix product (with bias, scaling) that is summed over one of its two free dimensions becomes a matrix-vector
  product with the summed matrix.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any

Node = Any

_IDENTITY = ("clone", "detach", "contiguous", "alias")


def rewrite(exported: Any) -> list[str]:
    """Rewrite the exported graph in place; returns one note a rewrite."""
    graph = exported.graph
    notes: list[str] = []
    for node in list(graph.nodes):
        if node.op != "call_function" or not hasattr(node.target, "_schema"):
            continue
        builder = _Builder(graph, node)
        for rule in (_diagonal_product, _summed_product):
            done = rule(builder, node)
            if done is not None:
                new, note = done
                node.replace_all_uses_with(new)
                notes.append(note)
                break
    graph.eliminate_dead_code()
    return notes


class _Builder:
    """Inserts nodes before `node`, with shapes from running them on the fake tensors."""

    def __init__(self, graph: Any, node: Node) -> None:
        self.graph = graph
        self.node = node

    def call(self, name: str, overload: str, *args: Any) -> Node:
        """aten.<name>.<overload>(*args)."""
        import torch

        target = getattr(getattr(torch.ops.aten, name), overload)
        with self.graph.inserting_before(self.node):
            new = self.graph.call_function(target, args)
        fake = [a.meta["val"] if hasattr(a, "meta") else a for a in args]
        mode = next((f.fake_mode for f in fake if hasattr(f, "fake_mode")), None)
        with torch.no_grad():
            if mode is None:
                new.meta["val"] = target(*fake)
            else:
                with mode:
                    new.meta["val"] = target(*fake)
        return new

    def sum(self, x: Node, dims: list[int], keepdim: bool) -> Node:
        """Sum over dimensions."""
        return self.call("sum", "dim_IntList", x, dims, keepdim)


def _name(node: Any) -> str:
    target = getattr(node, "target", None)
    return target._schema.name.removeprefix("aten::") if hasattr(target, "_schema") else ""


def _shape(node: Any) -> tuple[int, ...]:
    return tuple(node.meta["val"].shape)


def _arg(node: Node, index: int, default: Any = None) -> Any:
    """An argument by position, also where it was given by name."""
    if index < len(node.args):
        return node.args[index]
    return node.kwargs.get(node.target._schema.arguments[index].name, default)


def _diagonal(node: Any) -> Node | None:
    """The vector(s) whose diagonal matrix `node` is."""
    name = _name(node)
    if name in _IDENTITY:
        return _diagonal(node.args[0])
    if name == "diag" and len(_shape(node.args[0])) == 1 and _arg(node, 1, 0) == 0:
        return node.args[0]
    if name == "diag_embed" and _arg(node, 1, 0) == 0:
        rank = len(_shape(node))
        if {_arg(node, 2, -2) % rank, _arg(node, 3, -1) % rank} == {rank - 2, rank - 1}:
            return node.args[0]
    return None


def _diagonal_product(b: _Builder, node: Node) -> tuple[Node, str] | None:
    name = _name(node)
    if name not in ("matmul", "mm", "bmm", "linear"):
        return None
    left, right = node.args[:2]
    on_left, on_right = _diagonal(left), _diagonal(right)
    if on_right is not None:
        out = right_scaled(b, left, on_right)
        if name == "linear" and _arg(node, 2) is not None:
            out = b.call("add", "Tensor", out, _arg(node, 2))
        note = "A @ diag(b) → column scaling"
    elif on_left is not None and name != "linear":
        scale = on_left if len(_shape(right)) == 1 else b.call("unsqueeze", "default", on_left, -1)
        out = b.call("mul", "Tensor", right, scale)
        note = "diag(A) @ B → row scaling"
    else:
        return None
    return (out, note) if _shape(out) == _shape(node) else None


def right_scaled(b: _Builder, left: Node, diagonal: Node) -> Node:
    """left @ diag(diagonal)."""
    batched = len(_shape(diagonal)) > 1
    scale = b.call("unsqueeze", "default", diagonal, -2) if batched else diagonal
    return b.call("mul", "Tensor", left, scale)


def _summed_product(b: _Builder, node: Node) -> tuple[Node, str] | None:
    """sum or mean over the last (or, for matrices, the first) dimension of an affine chain on a matrix product."""
    name = _name(node)
    if name not in ("sum", "mean") or not hasattr(node.args[0], "meta"):
        return None
    shape = _shape(node.args[0])
    rank = len(shape)
    dims = _arg(node, 1) if node.target._overloadname in ("dim_IntList", "dim") else None
    dims = sorted({d % rank for d in dims}) if dims else list(range(rank))
    keepdim = bool(_arg(node, 2, False)) if node.target._overloadname in ("dim_IntList", "dim") else False
    if (
        node.meta["val"].dtype != node.args[0].meta["val"].dtype
        or not node.args[0].meta["val"].is_floating_point()
    ):
        return None
    if rank - 1 in dims:
        plan, done, what = _plan(node.args[0], _last_dim_product), rank - 1, "output features"
    elif rank == 2 and dims == [0]:
        plan, done, what = _plan(node.args[0], _first_dim_product), 0, "rows"
    else:
        return None
    if plan is None:
        return None
    out = plan(b)
    rest = [d for d in dims if d != done]
    if rest:
        out = b.sum(out, rest, True)
    if name == "mean":
        out = b.call("div", "Tensor", out, float(prod(shape[d] for d in dims)))
    if not keepdim:
        out = b.call("reshape", "default", out, list(_shape(node)))
    if _shape(out) != _shape(node):
        return None
    return out, f"matmul → {name} over its {what} → matrix-vector product with the summed matrix"


Plan = Callable[[_Builder], Node]
_AFFINE = {"mul": operator.mul, "div": operator.truediv, "multiply": operator.mul, "divide": operator.truediv}


def _plan(node: Any, product: Callable[[Node], Plan | None]) -> Plan | None:
    """How to get the kept-dimension sum of `node` without forming it; None where it is no affine chain."""
    if not hasattr(node, "target") or len(node.users) != 1:
        return None
    name = _name(node)
    if name in _IDENTITY or (name == "dropout" and not _arg(node, 2)):
        return _plan(node.args[0], product)
    if name in _AFFINE and isinstance(_arg(node, 1), int | float) and not node.kwargs:
        inner = _plan(node.args[0], product)
        if inner is None:
            return None
        kind, factor = ("mul" if name.startswith("mul") else "div"), node.args[1]
        return lambda b: b.call(kind, "Tensor", inner(b), factor)
    if name == "mul" and isinstance(node.args[0], int | float):
        inner = _plan(node.args[1], product)
        return None if inner is None else lambda b: b.call("mul", "Tensor", inner(b), node.args[0])
    if name == "neg":
        inner = _plan(node.args[0], product)
        return None if inner is None else lambda b: b.call("neg", "default", inner(b))
    return product(node)


def _operands(node: Node) -> tuple[Node, Node, bool, Node | None] | None:
    """(left, right, whether right is transposed, bias) of a product with a two-dimensional right side."""
    name = _name(node)
    if name == "linear":
        left, right, bias = node.args[0], node.args[1], _arg(node, 2)
        found = (left, right, True, bias)
    elif name in ("matmul", "mm"):
        found = (node.args[0], node.args[1], False, None)
    elif name == "addmm" and not node.kwargs and len(_shape(node.args[0])) == 1:
        found = (node.args[1], node.args[2], False, node.args[0])
    else:
        return None
    if len(_shape(found[1])) != 2 or len(_shape(found[0])) < 2:
        return None
    return found


def _last_dim_product(node: Node) -> Plan | None:
    found = _operands(node)
    if found is None:
        return None
    left, right, transposed, bias = found

    def build(b: _Builder) -> Node:
        summed = b.sum(right, [0 if transposed else 1], False)
        out = b.sum(b.call("mul", "Tensor", left, summed), [-1], True)
        if bias is not None:
            out = b.call("add", "Tensor", out, b.sum(bias, [0], False))
        return out

    return build


def _first_dim_product(node: Node) -> Plan | None:
    found = _operands(node)
    if found is None or len(_shape(found[0])) != 2:
        return None
    left, right, transposed, bias = found

    def build(b: _Builder) -> Node:
        summed = b.sum(left, [0], False)
        if transposed:
            out = b.sum(b.call("mul", "Tensor", right, summed), [1], False)
        else:
            column = b.call("unsqueeze", "default", summed, -1)
            out = b.sum(b.call("mul", "Tensor", right, column), [0], False)
        if bias is not None:
            out = b.call("add", "Tensor", out, b.call("mul", "Tensor", bias, float(_shape(left)[0])))
        return b.call("unsqueeze", "default", out, 0)

    return build
