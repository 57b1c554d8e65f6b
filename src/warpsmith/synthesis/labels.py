"""Operators that really run, against the operators that a row names.

Names are compared in one spelling: `torch.nn.GELU`, `F.gelu` and `x.gelu` are `gelu`; `@`, `torch.mm`, `torch.bmm`
and `x.matmul` are `matmul`; `x += y` and `torch.add` are `add`. What runs is taken from the trace of the task, where
every call of a torch function, method or module was seen; where there is none, from the calls and operators in the
text of the classes and functions that `Model` reaches, which knows nothing of branches.
"""

import ast
from collections.abc import Iterable, Sequence

from warpsmith.synthesis.similarity import full_name, imported_names
from warpsmith.synthesis.structure import FingerprintKind, Structure

_PREFIXES = (
    "torch.nn.functional.",
    "torch.nn.modules.",
    "torch.nn.",
    "torch.special.",
    "torch.linalg.",
    "torch.fft.",
    "torch.ops.aten.",
    "torch.Tensor.",
    "torch._C._nn.",
    "torch._C._special.",
    "torch._C._linalg.",
    "torch._C._fft.",
    "torch._VF.",
    "torch.",
    "Tensor.",
    "nn.functional.",
    "nn.",
    "F.",
    "aten.",
)
_SAME = {
    # torch.mm goes by the names spmm and dsmm too, and calls itself by one of them
    "matmul": "mm bmm @ addmm baddbmm mv matvec dot spmm dsmm".split(),
    "add": "+ iadd radd".split(),
    "sub": "- subtract isub rsub".split(),
    "mul": "* multiply imul rmul".split(),
    "div": "/ divide truediv truedivide itruediv rtruediv rdiv".split(),
    "pow": "** ipow rpow power".split(),
    "floordivide": "// floordiv ifloordiv rfloordiv".split(),
    "remainder": "% mod imod rmod".split(),
    "neg": ["negative"],
    "abs": ["absolute"],
    "invert": ["~", "bitwisenot"],
    "clamp": "clip clampmin clampmax".split(),
    "cat": "concat concatenate".split(),
    "silu": ["swish"],
    "sigmoid": ["expit"],
    "max": "amax adaptivemax".split(),
    "min": ["amin"],
    "norm": "vectornorm matrixnorm".split(),
    "batchnorm": "batchnorm1d batchnorm2d batchnorm3d syncbatchnorm".split(),
    "instancenorm": "instancenorm1d instancenorm2d instancenorm3d".split(),
    "dropout": "dropout1d dropout2d dropout3d alphadropout featurealphadropout".split(),
    "scaleddotproductattention": ["sdpa"],
    "multiheadattention": ["multiheadattentionforward"],
    "permute": "transpose t swapaxes swapdims movedim".split(),
    "reshape": "view flatten unflatten".split(),
    "gt": "> greater".split(),
    "lt": "< less".split(),
    "ge": ">= greaterequal".split(),
    "le": "<= lessequal".split(),
    "eq": ["=="],
    "ne": "!= notequal".split(),
    "getitem": "index select narrow".split(),
}
"""Other spellings of an operator."""
_ONE = {other: name for name, others in _SAME.items() for other in others}
_MEANS_ALSO = {
    "reflectionpad": ["pad"],
    "replicationpad": ["pad"],
    "zeropad": ["pad"],
    "constantpad": ["pad"],
    "circularpad": ["pad"],
    "upsample": ["interpolate"],
    "upsamplingnearest": ["interpolate", "upsample"],
    "upsamplingbilinear": ["interpolate", "upsample"],
    "linear": ["matmul"],
    "softmax2d": ["softmax"],
    "square": ["pow"],
    "addcmul": ["add", "mul"],
    "addmm": ["add"],
    "baddbmm": ["add"],
    "mseloss": ["l2loss"],
    "crossentropyloss": ["crossentropy"],
}
"""What an operator that ran may be called as well."""


def spelling(name: str) -> str:
    """The one spelling of an operator's name: no library, no case, no underscores."""
    name = name.strip()
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            name = name.removeprefix(prefix)
            break
    name = name.rsplit(".", 1)[-1] if not name.startswith(".") else name[1:]
    name = name.removesuffix("()")
    word = name.lower().replace("_", "") or name
    if word.endswith("loss") and word != "loss":
        word = word.removesuffix("loss")
    return _ONE.get(word, word)


def operators(code: str, structure: Structure | None = None) -> frozenset[str]:
    """Spellings of the operators that the task runs, and of what else they may be called."""
    if structure is not None and structure.kind is FingerprintKind.GRAPH:
        names: Iterable[str] = structure.called
    else:
        names = _calls(code)
    found: set[str] = set()
    for name in names:
        word = spelling(name)
        found.add(word)
        bare = word.rstrip("123d") if word not in ("conv1d", "conv2d", "conv3d") else word
        raw = name.rsplit(".", 1)[-1].lower().replace("_", "").strip()
        for key in (word, bare, raw):
            found.update(spelling(other) for other in _MEANS_ALSO.get(key, ()))
    if {"matmul", "add"} <= found:
        found.add("linear")  # written out: x @ weight.T + bias
    return frozenset(found)


def not_run(ops: Sequence[str], code: str, structure: Structure | None = None) -> tuple[str, ...]:
    """The names among `ops` of operators that the task does not run; a row with one is mislabelled.

    Raises SyntaxError where the text is no Python and was not traced.
    """
    found = operators(code, structure)
    return tuple(name for name in ops if spelling(name) not in found)


# --- from the text


def _calls(code: str) -> list[str]:
    """Names of what the classes and functions that `Model` reaches call, as they are written in full."""
    module = ast.parse(code)
    names = imported_names(module)
    parts = {
        node.name: node
        for node in module.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    }
    pending, reached, found = ["Model"], set(), []
    while pending:
        part = pending.pop()
        if part in reached or part not in parts:
            continue
        reached.add(part)
        node = parts[part]
        used = _used_attributes(node) if isinstance(node, ast.ClassDef) else None
        found += _names_of(node, names, used)
        pending += [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in parts]
        found.append(part)
    return found


def _used_attributes(node: ast.ClassDef) -> frozenset[str]:
    """Attributes of `self` that some method but `__init__` reads."""
    methods = [m for m in node.body if isinstance(m, ast.FunctionDef) and m.name != "__init__"]
    return frozenset(
        n.attr
        for method in methods
        for n in ast.walk(method)
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == "self"
    )


_SIGNS = {
    ast.MatMult: "@",
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Pow: "**",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.USub: "neg",
    ast.Invert: "~",
    ast.Gt: ">",
    ast.Lt: "<",
    ast.GtE: ">=",
    ast.LtE: "<=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


def _names_of(part: ast.AST, names: dict[str, str], used: frozenset[str] | None) -> list[str]:
    found: list[str] = []
    pending: list[ast.AST] = [part]
    while pending:
        node = pending.pop()
        if used is not None and _makes_unused(node, used):
            continue
        pending.extend(ast.iter_child_nodes(node))
        match node:
            case ast.Attribute():
                found.append(full_name(node, names) or f".{node.attr}")
            case ast.Name(id=name) if name in names:
                found.append(names[name])
            case ast.BinOp(op=sign) | ast.AugAssign(op=sign) | ast.UnaryOp(op=sign):
                found.append(_SIGNS.get(type(sign), ""))
            case ast.Compare(ops=signs):
                found += [_SIGNS.get(type(sign), "") for sign in signs]
            case ast.Subscript():
                found.append("getitem")
    return [name for name in found if name]


def _makes_unused(node: ast.AST, used: frozenset[str]) -> bool:
    """Whether a statement only fills an attribute of `self` that no method reads."""
    if not isinstance(node, ast.Assign):
        return False
    return all(
        isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
        and target.attr not in used
        for target in node.targets
    )
