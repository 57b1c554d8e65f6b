"""The arithmetic of templates: integers, comparisons and `max`/`min` over named sizes. Nothing else is evaluated."""

import ast
import operator
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from warpsmith.errors import UsageError

_BINARY = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Pow: operator.pow, ast.Div: operator.truediv,
}  # fmt: skip
_COMPARE = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_CALLS = {"max": max, "min": min}


@lru_cache(maxsize=4096)
def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise UsageError(f"a template's expression cannot be read: {text!r}") from error


def evaluate(text: str, names: Mapping[str, Any]) -> Any:
    """Value of an expression. Raises UsageError for unknown names and whatever is no arithmetic."""
    return _value(_parsed(text), names, text)


def names_in(text: str) -> set[str]:
    """Names that an expression uses, `max` and `min` left out."""
    return {node.id for node in ast.walk(_parsed(text)) if isinstance(node, ast.Name)} - set(_CALLS)


def substituted(text: str, symbols: Mapping[str, str]) -> str:
    """The expression with each name replaced by another expression: `d1 // 4` -> `in_channels // 4`."""

    class Replace(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return _parsed(symbols[node.id]) if node.id in symbols else node

    return ast.unparse(Replace().visit(ast.parse(text, mode="eval")))


def _value(node: ast.expr, names: Mapping[str, Any], text: str) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.Tuple(elts=items):
            return tuple(_value(item, names, text) for item in items)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_value(inner, names, text)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return not _value(inner, names, text)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_value(left, names, text), _value(right, names, text))
        case ast.BoolOp(op=op, values=items):
            join = all if isinstance(op, ast.And) else any
            return join(_value(item, names, text) for item in items)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
            return _COMPARE[type(op)](_value(left, names, text), _value(right, names, text))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _CALLS:
            return _CALLS[name](*(_value(item, names, text) for item in args))
    raise UsageError(f"a template's expression cannot be evaluated: {text!r}")
