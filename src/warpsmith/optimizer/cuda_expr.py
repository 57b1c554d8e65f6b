"""Expressions as CUDA C++ statements."""

from __future__ import annotations

import math
from collections.abc import Callable

from warpsmith.optimizer.ir import Arena, Const, Iota, Load, NotRepresentableError, Op

TYPES = {"f": "float", "i": "long long", "b": "bool"}
_INFIX = {
    **{"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&&", "or": "||"},
    **{"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="},
}
_CALLS = {
    **{
        f: f + "f" for f in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "tanh")
    },
    **{f: f + "f" for f in ("sin", "cos", "tan", "erf", "erfc", "floor", "ceil", "trunc", "sinh", "cosh")},
    **{f: f + "f" for f in ("atan", "asinh", "pow")},
    "round": "rintf",
    "sign": "sign_of",
    "maximum": "nan_max",
    "minimum": "nan_min",
    "to_float": "static_cast<float>",
    "to_int": "static_cast<long long>",
    "arg_key": "arg_key",
    "key_place": "place_of_key",
    "leading_bits": "leading_bits",
}
HELPERS = {
    "nan_max": """// NaN wins, as in PyTorch.
template <class T>
__device__ __forceinline__ T nan_max(T a, T b) { return (a > b || a != a) ? a : b; }
""",
    "nan_min": """// NaN wins, as in PyTorch.
template <class T>
__device__ __forceinline__ T nan_min(T a, T b) { return (a < b || a != a) ? a : b; }
""",
    "arg_key": """// Ordered as the value, then as the smaller place; NaN above all, and 0 and -0 alike.
__device__ __forceinline__ long long arg_key(float x, long long place) {
    const int bits = __float_as_int(x + 0.0f);
    const int ordered = x != x ? 0x7fffffff : bits < 0 ? bits ^ 0x7fffffff : bits;
    const unsigned long long high = static_cast<unsigned>(ordered);
    return static_cast<long long>((high << 32) | (0xffffffffu - static_cast<unsigned>(place)));
}
""",
    "place_of_key": """__device__ __forceinline__ long long place_of_key(long long key) {
    return static_cast<long long>(0xffffffffu - static_cast<unsigned>(key));
}
""",
    "leading_bits": """// Rounded to the 11 bits that TF32 holds. Arithmetic that does so may be contracted away.
__device__ __forceinline__ float leading_bits(float x) {
    return __int_as_float((__float_as_int(x) + 0x1000) & ~0x1fff);
}
""",
    "sign_of": """__device__ __forceinline__ float sign_of(float x) { return (x > 0.0f) - (x < 0.0f); }
""",
}


def constant(node: Const) -> str:
    """A literal."""
    if node.kind == "b":
        return "true" if node.value else "false"
    if node.kind == "i":
        return f"{int(node.value)}LL"
    value = float(node.value)
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    if abs(value) > 3.4028234663852886e38:
        return "INFINITY" if value > 0 else "-INFINITY"
    return f"{value!r}f"


def application(name: str, kind: str, args: list[str]) -> str:
    """C++ for one operator on named operands."""
    if name in _INFIX:
        return f"{args[0]} {_INFIX[name]} {args[1]}"
    if name == "neg":
        return f"-{args[0]}"
    if name == "not":
        return f"!{args[0]}"
    if name == "abs":
        return f"fabsf({args[0]})" if kind == "f" else f"({args[0]} < 0 ? -{args[0]} : {args[0]})"
    if name == "reciprocal":
        return f"1.0f / {args[0]}"
    if name == "where":
        return f"{args[0]} ? {args[1]} : {args[2]}"
    if name in ("pick", "pick_wide"):
        # narrow: the index fits in 32 bits, and so does the arithmetic that leads to it
        index = args[1] if name == "pick_wide" else f"static_cast<int>({args[1]})"
        nothing = {"f": "0.0f", "i": "0LL", "b": "false"}[kind]
        read = f"load_one({args[0]} + {index})"
        return read if args[2] == "true" else f"{args[2]} ? {read} : {nothing}"
    if name == "within":
        # one unsigned comparison for 0 <= x < n
        return f"static_cast<unsigned>(static_cast<int>({args[0]})) < {args[1].removesuffix('LL')}u"
    if name in _CALLS:
        return f"{_CALLS[name]}({', '.join(args)})"
    raise NotRepresentableError(f"no CUDA for {name}")


class Statements:
    """Collects `const float v3 = …;` lines; every expression is written once in a scope."""

    def __init__(self, arena: Arena, leaf: Callable[[Load | Iota], str]) -> None:
        self.arena = arena
        self.leaf = leaf
        self.names: dict[int, str] = {}
        self.lines: list[str] = []

    def add(self, root: int) -> str:
        """Name of `root`, with the statements that compute it appended."""
        for at in self.arena.walk(root, lambda i: i in self.names):
            if at in self.names:
                continue
            node = self.arena.nodes[at]
            if isinstance(node, Const):
                self.names[at] = constant(node)
            elif isinstance(node, Load) and node.is_address:
                self.names[at] = node.buf
            elif isinstance(node, Op):
                text = application(node.name, node.kind, [self.names[a] for a in node.args])
                self.names[at] = f"v{at}"
                self.lines.append(f"const {TYPES[node.kind]} v{at} = {text};")
            else:
                self.names[at] = self.leaf(node)
        return self.names[root]


def helpers_in(text: str) -> list[str]:
    """Definitions of the helper functions that `text` calls."""
    return [body for name, body in HELPERS.items() if f"{name}(" in text]
