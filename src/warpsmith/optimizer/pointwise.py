"""Pointwise operators as scalar expressions, with the formulas that PyTorch uses.

Each builder takes the arena and the operator's arguments by schema name: tensors as expression ids, the rest as
Python values. A name missing from `POINTWISE` stays a torch call.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from warpsmith.optimizer.ir import Arena, Const, NotRepresentableError

Arg = int | float | bool | None


class Tensor(int):
    """An expression id, told apart from a Python integer."""


def _id(a: Arena, x: object) -> int:
    return int(x) if isinstance(x, Tensor) else a.const(x)  # type: ignore[arg-type]


def as_float(a: Arena, x: object) -> int:
    """`x` as a float expression."""
    at = _id(a, x)
    node = a.nodes[at]
    if node.kind == "f":
        return at
    return a.const(float(node.value)) if isinstance(node, Const) else a.op("to_float", at)


def as_bool(a: Arena, x: object) -> int:
    """`x != 0`."""
    at = _id(a, x)
    node = a.nodes[at]
    if node.kind == "b":
        return at
    return a.op("ne", at, a.const(0.0 if node.kind == "f" else 0), kind="b")


def as_int(a: Arena, x: object) -> int:
    """`x` as an integer expression, truncated."""
    at = _id(a, x)
    return at if a.nodes[at].kind == "i" else a.op("to_int", at, kind="i")


def _both(a: Arena, x: object, y: object) -> tuple[int, int, str]:
    """Both operands in the wider kind."""
    left, right = _id(a, x), _id(a, y)
    kinds = {a.nodes[left].kind, a.nodes[right].kind}
    if "f" in kinds:
        return as_float(a, Tensor(left)), as_float(a, Tensor(right)), "f"
    return as_int(a, Tensor(left)), as_int(a, Tensor(right)), "i"


def _arith(name: str) -> Callable[..., int]:
    def build(a: Arena, self: object, other: object, alpha: float = 1) -> int:
        if alpha != 1:
            other = Tensor(_arith("mul")(a, other, alpha))
        left, right, kind = _both(a, self, other)
        return a.op(name, left, right, kind=kind)  # type: ignore[arg-type]

    return build


def _rsub(a: Arena, self: object, other: object, alpha: float = 1) -> int:
    return _arith("sub")(a, other, self, alpha)


def _div(a: Arena, self: object, other: object, rounding_mode: str | None = None) -> int:
    if rounding_mode is not None:
        raise NotRepresentableError("division with rounding")
    return a.op("div", as_float(a, self), as_float(a, other))


def _compare(name: str) -> Callable[..., int]:
    def build(a: Arena, self: object, other: object) -> int:
        left, right, _ = _both(a, self, other)
        return a.op(name, left, right, kind="b")

    return build


def _logical(name: str) -> Callable[..., int]:
    return lambda a, self, other: a.op(name, as_bool(a, self), as_bool(a, other), kind="b")


def _bitwise(name: str) -> Callable[..., int]:
    def build(a: Arena, self: object, other: object) -> int:
        if {a.nodes[_id(a, self)].kind, a.nodes[_id(a, other)].kind} != {"b"}:
            raise NotRepresentableError("bitwise arithmetic on integers")
        return _logical(name)(a, self, other)

    return build


def _logical_not(a: Arena, self: object) -> int:
    return a.op("not", as_bool(a, self), kind="b")


def _bitwise_not(a: Arena, self: object) -> int:
    if a.nodes[_id(a, self)].kind != "b":
        raise NotRepresentableError("bitwise arithmetic on integers")
    return _logical_not(a, self)


def _unary(name: str) -> Callable[..., int]:
    return lambda a, self: a.op(name, as_float(a, self))


def _signed(name: str) -> Callable[..., int]:
    def build(a: Arena, self: object) -> int:
        left, _, kind = _both(a, self, self)
        return a.op(name, left, kind=kind)  # type: ignore[arg-type]

    return build


def _where(a: Arena, condition: object, self: object, other: object) -> int:
    left, right, kind = _both(a, self, other)
    return a.op("where", as_bool(a, condition), left, right, kind=kind)  # type: ignore[arg-type]


def _clamp(a: Arena, self: object, min: object = None, max: object = None) -> int:
    out = self
    if min is not None:
        left, right, kind = _both(a, out, min)
        out = Tensor(a.op("maximum", left, right, kind=kind))  # type: ignore[arg-type]
    if max is not None:
        left, right, kind = _both(a, out, max)
        out = Tensor(a.op("minimum", left, right, kind=kind))  # type: ignore[arg-type]
    return _id(a, out)


def _hardtanh(a: Arena, self: object, min_val: float = -1, max_val: float = 1) -> int:
    return _clamp(a, self, min_val, max_val)


def _leaky_relu(a: Arena, self: object, negative_slope: float = 0.01) -> int:
    x = as_float(a, self)
    low = a.op("mul", x, a.const(float(negative_slope)))
    return a.op("where", a.op("gt", x, a.const(0.0), kind="b"), x, low)


def _gelu(a: Arena, self: object, approximate: str = "none") -> int:
    x = as_float(a, self)
    half = a.op("mul", x, a.const(0.5))
    if approximate == "tanh":
        cube = a.op("mul", a.op("mul", x, x), x)
        inner = a.op("add", x, a.op("mul", cube, a.const(0.044715)))
        t = a.op("tanh", a.op("mul", inner, a.const(math.sqrt(2 / math.pi))))
    else:
        t = a.op("erf", a.op("mul", x, a.const(math.sqrt(0.5))))
    return a.op("mul", half, a.op("add", t, a.const(1.0)))


def _silu(a: Arena, self: object) -> int:
    x = as_float(a, self)
    return a.op("div", x, a.op("add", a.const(1.0), a.op("exp", a.op("neg", x))))


def _mish(a: Arena, self: object) -> int:
    # tanh(log(1 + e)) = e(e + 2) / (e(e + 2) + 2) with e = exp(x): exact, and every term is positive.
    x = as_float(a, self)
    e = a.op("exp", x)
    n = a.op("mul", e, a.op("add", e, a.const(2.0)))
    y = a.op("mul", x, a.op("div", n, a.op("add", n, a.const(2.0))))
    return a.op("where", a.op("gt", x, a.const(20.0), kind="b"), x, y)


def _softplus(a: Arena, self: object, beta: float = 1, threshold: float = 20) -> int:
    x = as_float(a, self)
    scaled = x if beta == 1 else a.op("mul", x, a.const(float(beta)))
    soft = a.op("log1p", a.op("exp", scaled))
    if beta != 1:
        soft = a.op("div", soft, a.const(float(beta)))
    return a.op("where", a.op("gt", scaled, a.const(float(threshold)), kind="b"), x, soft)


def _elu(a: Arena, self: object, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> int:
    x = as_float(a, self)
    inner = x if input_scale == 1 else a.op("mul", x, a.const(float(input_scale)))
    low = a.op("mul", a.op("expm1", inner), a.const(float(alpha * scale)))
    high = x if scale == 1 else a.op("mul", x, a.const(float(scale)))
    return a.op("where", a.op("gt", x, a.const(0.0), kind="b"), high, low)


def _selu(a: Arena, self: object) -> int:
    return _elu(a, self, 1.6732632423543772, 1.0507009873554805)


def _celu(a: Arena, self: object, alpha: float = 1.0) -> int:
    return _elu(a, self, alpha, 1, 1 / alpha)


def _hardsigmoid(a: Arena, self: object) -> int:
    gate = _clamp(a, Tensor(a.op("add", as_float(a, self), a.const(3.0))), 0.0, 6.0)
    return a.op("mul", gate, a.const(1 / 6))


def _hardswish(a: Arena, self: object) -> int:
    x = as_float(a, self)
    gate = _clamp(a, Tensor(a.op("add", x, a.const(3.0))), 0.0, 6.0)
    return a.op("mul", a.op("mul", x, gate), a.const(1 / 6))


def _log_sigmoid(a: Arena, self: object) -> int:
    # min(x, 0) - log1p(exp(-|x|)), as PyTorch computes it.
    x = as_float(a, self)
    tail = a.op("log1p", a.op("exp", a.op("neg", a.op("abs", x))))
    return a.op("sub", a.op("minimum", x, a.const(0.0)), tail)


def _threshold(a: Arena, self: object, threshold: float, value: float) -> int:
    x = as_float(a, self)
    low = a.op("le", x, a.const(float(threshold)), kind="b")
    return a.op("where", low, a.const(float(value)), x)


def _pow(a: Arena, self: object, exponent: object) -> int:
    x = as_float(a, self)
    if not isinstance(exponent, Tensor):
        power = float(exponent)  # type: ignore[arg-type]
        if power == 1:
            return x
        if power == 2:
            return a.op("mul", x, x)
        if power == 3:
            return a.op("mul", a.op("mul", x, x), x)
        simple = {0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}.get(power)
        if simple:
            return a.op(simple, x)
    return a.op("pow", x, as_float(a, exponent))


def _square(a: Arena, self: object) -> int:
    return _pow(a, self, 2)


def _lerp(a: Arena, self: object, end: object, weight: object) -> int:
    x = as_float(a, self)
    step = a.op("mul", as_float(a, weight), a.op("sub", as_float(a, end), x))
    return a.op("add", x, step)


def _addc(name: str) -> Callable[..., int]:
    def build(a: Arena, self: object, tensor1: object, tensor2: object, value: float = 1) -> int:
        term = a.op(name, as_float(a, tensor1), as_float(a, tensor2))
        if value != 1:
            term = a.op("mul", term, a.const(float(value)))
        return a.op("add", as_float(a, self), term)

    return build


def _masked_fill(a: Arena, self: object, mask: object, value: object) -> int:
    return _where(a, mask, value, self)


def _sigmoid(a: Arena, self: object) -> int:
    x = as_float(a, self)
    return a.op("reciprocal", a.op("add", a.const(1.0), a.op("exp", a.op("neg", x))))


def _xlogy(a: Arena, self: object, other: object) -> int:
    x, y = as_float(a, self), as_float(a, other)
    product = a.op("mul", x, a.op("log", y))
    zero = a.op("and", a.op("eq", x, a.const(0.0), kind="b"), a.op("eq", y, y, kind="b"), kind="b")
    return a.op("where", zero, a.const(0.0), product)


def _minmax(name: str) -> Callable[..., int]:
    def build(a: Arena, self: object, other: object) -> int:
        left, right, kind = _both(a, self, other)
        return a.op(name, left, right, kind=kind)  # type: ignore[arg-type]

    return build


POINTWISE: dict[str, Callable[..., int]] = {
    "add": _arith("add"),
    "sub": _arith("sub"),
    "subtract": _arith("sub"),
    "rsub": _rsub,
    "mul": _arith("mul"),
    "multiply": _arith("mul"),
    "div": _div,
    "divide": _div,
    "true_divide": _div,
    "neg": _signed("neg"),
    "abs": _signed("abs"),
    "relu": lambda a, self: _clamp(a, self, 0.0 if a.nodes[_id(a, self)].kind == "f" else 0),
    "relu6": lambda a, self: _clamp(a, self, 0.0, 6.0),
    "leaky_relu": _leaky_relu,
    "sigmoid": _sigmoid,
    "gelu": _gelu,
    "silu": _silu,
    "mish": _mish,
    "softplus": _softplus,
    "elu": _elu,
    "selu": _selu,
    "celu": _celu,
    "hardtanh": _hardtanh,
    "hardsigmoid": _hardsigmoid,
    "hardswish": _hardswish,
    "log_sigmoid": _log_sigmoid,
    "threshold": _threshold,
    "clamp": _clamp,
    "clip": _clamp,
    "clamp_min": lambda a, self, min: _clamp(a, self, min),
    "clamp_max": lambda a, self, max: _clamp(a, self, None, max),
    "pow": _pow,
    "square": _square,
    "xlogy": _xlogy,
    "where": _where,
    "masked_fill": _masked_fill,
    "lerp": _lerp,
    "addcmul": _addc("mul"),
    "addcdiv": _addc("div"),
    "maximum": _minmax("maximum"),
    "minimum": _minmax("minimum"),
    "logical_and": _logical("and"),
    "logical_or": _logical("or"),
    "logical_not": _logical_not,
    "bitwise_and": _bitwise("and"),
    "bitwise_or": _bitwise("or"),
    "bitwise_not": _bitwise_not,
    **{name: _compare(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{
        name: _unary(name)
        for name in (
            *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "tanh"),
            *("sin", "cos", "tan", "erf", "erfc", "floor", "ceil", "trunc", "round", "sinh", "cosh", "atan"),
            *("sign", "asinh"),
        )
    },
}
