"""A task as it is put together: operators applied one after another, then written out as text."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from warpsmith.synthesis.arithmetic import evaluate, names_in, substituted
from warpsmith.synthesis.probing import dimension_names, namespace
from warpsmith.synthesis.records import Family, InputTemplate, Operator, OperatorKind, Values
from warpsmith.synthesis.tracing import Call, Trace, traced

_PLACEHOLDER = re.compile(r"{(\w+)}")
_ROLES = {
    2: ("batch_size", "features"),
    3: ("batch_size", "seq_len", "hidden_dim"),
    4: ("batch_size", "channels", "height", "width"),
    5: ("batch_size", "channels", "depth", "height", "width"),
}
_SIGNAL = ("batch_size", "channels", "length")
_HEADS = ("batch_size", "num_heads", "seq_len", "head_dim")
_IMAGE_LIKE = frozenset({Family.CONV, Family.POOL, Family.RESAMPLE})
_DRAWS = {
    Values.ANY: "torch.randn({shape})",
    Values.SIGNED_UNIT: "torch.rand({shape}) * 2 - 1",
    Values.UNIT: "torch.rand({shape})",
    Values.POSITIVE: "torch.rand({shape}) * 2 + 0.1",
    Values.POSITIVE_UNIT: "torch.rand({shape}) * 0.9 + 0.1",
    Values.NONNEGATIVE: "torch.rand({shape}) * 3",
}


class DoesNotFitError(Exception):
    """The operator cannot be applied here."""


@dataclass(frozen=True)
class Drawn:
    """An input: its name, and the expression of `get_inputs` that draws it."""

    name: str
    expression: str


@dataclass(frozen=True)
class Draft:
    """Immutable: applying an operator gives another draft."""

    sizes: Mapping[str, int]
    """Module-level names of the task, in order; the first is the one that is scaled."""
    shape: tuple[int, ...]
    """Of what flows, at these sizes."""
    symbols: tuple[str | None, ...]
    """The expression in `sizes` of each dimension of what flows, where it is known."""
    values: Values
    inputs: tuple[Drawn, ...]
    modules: tuple[tuple[str, str], ...] = ()
    statements: tuple[str, ...] = ()
    constructor_names: frozenset[str] = frozenset()
    conditions: tuple[str, ...] = ()
    """What must go on holding when sizes are scaled."""
    ops: tuple[Operator, ...] = ()
    ranks: tuple[int, ...] = ()
    """Of what flowed into each operator."""
    calls: tuple[Call, ...] = ()
    """The aten operators of shape inference, at the sizes that the operators were applied at."""

    def apply(self, op: Operator, parameters: Mapping[str, Any]) -> "Draft":
        """Raises DoesNotFitError where the operator does not run on what flows."""
        return _Application(self, op, dict(parameters)).result()

    def scaled(self, name: str, size: int) -> "Draft | None":
        """With another value of one size; None where a condition breaks. What flows keeps the old shape."""
        sizes = {**self.sizes, name: size}
        return replace(self, sizes=sizes) if all(evaluate(c, sizes) for c in self.conditions) else None

    def render(self) -> str:
        """The text of the task."""
        return _rendered(self)


def begin(op: Operator, shape: tuple[int, ...], values: Values) -> Draft:
    """A draft whose first tensor suits `op`."""
    if op.first is not None:
        names = dict(zip(("batch_size", "seq_len"), shape, strict=True))
        return Draft(names, shape, tuple(names), values, ())
    roles = _ROLES[len(shape)]
    if len(shape) == 3 and (
        op.family in _IMAGE_LIKE or op.name.endswith(("Norm1d", "group_norm", "GroupNorm"))
    ):
        roles = _SIGNAL
    if len(shape) == 4 and op.family is Family.ATTENTION:
        roles = _HEADS
    drawn = Drawn("x", _DRAWS[values].format(shape=", ".join(roles)))
    return Draft(dict(zip(roles, shape, strict=True)), shape, roles, values, (drawn,))


@dataclass
class _Application:
    draft: Draft
    op: Operator
    parameters: dict[str, Any]
    trace: Trace = field(default_factory=Trace)
    sizes: dict[str, int] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=dict)
    """Numbers by the names of the template."""
    texts: dict[str, str] = field(default_factory=dict)
    """What stands in the task's text for each of them."""

    def result(self) -> Draft:
        draft, op = self.draft, self.op
        self.sizes = dict(draft.sizes)
        self.symbols = list(draft.symbols)
        self.names = {**dimension_names(draft.shape), **self.parameters}
        self._name_dimensions()
        for parameter in op.parameters:
            value = self.parameters[parameter.name]
            if parameter.size:
                self.texts[parameter.name] = self._new_size(parameter.name, value)
            else:
                self.texts[parameter.name] = str(value)
        inputs = list(draft.inputs)
        if op.first is not None:
            inputs.append(self._drawn("x", op.first))
        for template in op.inputs:
            name = _unused(template.name, {i.name for i in inputs} | set(self.sizes) | {"x"})
            inputs.append(self._drawn(name, template))
            self.texts[template.name] = name
        modules, used = list(draft.modules), set(draft.constructor_names)
        if op.constructor is not None:
            attribute = _unused(_attribute(op), {name for name, _ in modules})
            self.texts["self"] = f"self.{attribute}"
            modules.append((attribute, _filled(op.constructor, self.texts)))
            used |= names_in_text(modules[-1][1]) & set(self.sizes)
        shape = self._shape()
        return Draft(
            sizes=self.sizes, shape=shape, symbols=self._symbols_out(shape), values=self._values_out(),
            inputs=tuple(inputs), modules=tuple(modules),
            statements=(*draft.statements, _filled(op.code, {**self.texts, "x": "x"})),
            constructor_names=frozenset(used), ops=(*draft.ops, op), calls=(*draft.calls, *self.trace.calls),
            ranks=(*draft.ranks, len(draft.shape)),
            conditions=(*draft.conditions, *(substituted(c, self._in_sizes()) for c in op.requires)),
        )  # fmt: skip

    def _name_dimensions(self) -> None:
        """A module-level name for each dimension that the template names."""
        op = self.op
        expressions = [e for t in (*op.inputs, *([op.first] if op.first else [])) for e in t.shape]
        texts = [
            op.code,
            op.constructor or "",
            *(t.draw for t in (*op.inputs, *([op.first] if op.first else []))),
        ]
        wanted = {name for text in texts for name in _PLACEHOLDER.findall(text)}
        wanted |= {name for e in expressions if e != "same" for name in names_in(e)}
        wanted |= {name for condition in op.requires for name in names_in(condition)}
        rank, same = len(self.draft.shape), "same" in expressions
        for i in range(rank):
            if self.symbols[i] is None and (
                same or f"d{i}" in wanted or (i == rank - 1 and "last" in wanted)
            ):
                role = _ROLES.get(rank, _ROLES[2])[min(i, 4)] if rank in _ROLES else f"size_{i}"
                self.symbols[i] = self._new_size(f"{role}_out", self.draft.shape[i])
        for i in range(rank):
            self.texts[f"d{i}"] = _grouped(self.symbols[i] or str(self.draft.shape[i]))
        self.texts["last"] = self.texts[f"d{rank - 1}"]

    def _new_size(self, name: str, value: int) -> str:
        name = _unused(name, set(self.sizes) | {"x"} | {i.name for i in self.draft.inputs})
        self.sizes[name] = value
        return name

    def _in_sizes(self) -> dict[str, str]:
        return {name: text if _is_expression(text) else repr(text) for name, text in self.texts.items()}

    def _drawn(self, name: str, template: InputTemplate) -> Drawn:
        if template.shape == ("same",):
            shape = [self.texts[f"d{i}"] for i in range(len(self.draft.shape))]
        else:
            shape = [substituted(e, self._in_sizes()) for e in template.shape]
        return Drawn(name, _filled(template.draw, {**self.texts, "shape": ", ".join(shape)}))

    def _shape(self) -> tuple[int, ...]:
        """What flows out, by running the operator on the meta device."""
        scope = namespace()
        numbers: dict[str, Any] = {**self.names, "x": "x", "self": "module"}
        try:
            with torch.device("meta"), torch.no_grad():
                scope["x"] = self._meta(self.op.first) if self.op.first else torch.empty(self.draft.shape)
                for template in self.op.inputs:
                    scope[template.name] = self._meta(template)
                    numbers[template.name] = template.name
                if self.op.constructor is not None:
                    scope["module"] = eval(self.op.constructor.format(**numbers), scope).eval()
                y, self.trace = traced(lambda: eval(self.op.code.format(**numbers), scope))
        except Exception as error:  # an operator says so in many ways where it does not fit
            raise DoesNotFitError(str(error)[:200]) from error
        if not isinstance(y, torch.Tensor) or y.numel() < 2:
            raise DoesNotFitError("its output is no tensor of two elements")
        return tuple(y.shape)

    def _meta(self, template: InputTemplate) -> torch.Tensor:
        if template.shape == ("same",):
            shape = self.draft.shape
        else:
            shape = tuple(evaluate(e, self.names) for e in template.shape)
        return torch.empty(shape, dtype=getattr(torch, template.dtype))

    def _symbols_out(self, shape: tuple[int, ...]) -> tuple[str | None, ...]:
        before = self.draft.shape
        found: list[str | None] = [None] * len(shape)
        for i, n in enumerate(shape):
            stated = self.op.dims_out[i] if self.op.dims_out and len(self.op.dims_out) == len(shape) else "?"
            if stated != "?":
                found[i] = substituted(stated, self._in_sizes())
            elif len(shape) == len(before) and n == before[i]:
                found[i] = self.symbols[i]
            elif i == 0 and n == before[0]:
                found[i] = self.symbols[0]
            elif n in self.parameters.values() and (name := self._size_parameter(n)):
                found[i] = name
        return tuple(found)

    def _size_parameter(self, value: int) -> str | None:
        of_value = [p.name for p in self.op.parameters if p.size and self.parameters[p.name] == value]
        return self.texts[of_value[0]] if of_value else None

    def _values_out(self) -> Values:
        return self.op.gives.get(self.draft.values, Values.ANY)


def _rendered(draft: Draft) -> str:
    lines = ["import torch", "import torch.nn as nn"]
    body = "\n".join([*draft.statements, *(text for _, text in draft.modules)])
    if re.search(r"\bF\.", body):
        lines.append("import torch.nn.functional as F")
    told = " -> ".join(op.name.rpartition(".")[2] for op in draft.ops)
    arguments = [name for name in draft.sizes if name in draft.constructor_names]
    lines += ["", "", "class Model(nn.Module):", f'    """{told}."""', ""]
    lines += [f"    def __init__({', '.join(['self', *arguments])}):", "        super().__init__()"]
    lines += [f"        self.{name} = {text}" for name, text in draft.modules]
    lines += ["", f"    def forward({', '.join(['self', *(i.name for i in draft.inputs)])}):"]
    lines += [f"        x = {text}" for text in draft.statements]
    lines += ["        return x", "", ""]
    lines += [f"{name} = {value}" for name, value in draft.sizes.items()]
    lines += ["", "", "def get_inputs():"]
    if len(draft.inputs) == 1:
        lines.append(f"    return [{draft.inputs[0].expression}]")
    else:
        lines += [f"    {i.name} = {i.expression}" for i in draft.inputs]
        lines.append(f"    return [{', '.join(i.name for i in draft.inputs)}]")
    lines += ["", "", "def get_init_inputs():", f"    return [{', '.join(arguments)}]"]
    return "\n".join(lines) + "\n"


def names_in_text(text: str) -> set[str]:
    """Identifiers in a piece of Python."""
    return set(re.findall(r"\b[a-z_][a-z0-9_]*\b", text))


def data_source(ops: tuple[Operator, ...]) -> str:
    """`torch#2`: the library and how many of its operators."""
    library = ops[0].library
    return library if ops[0].kind is OperatorKind.BLOCK else f"{library}#{len(ops)}"


def _filled(template: str, texts: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: texts[match[1]], template)


def _grouped(text: str) -> str:
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def _is_expression(text: str) -> bool:
    return bool(re.fullmatch(r"[\w\s()+\-*/%.,]+", text)) and not text.startswith("self")


def _unused(name: str, taken: set[str]) -> str:
    if name not in taken:
        return name
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def _attribute(op: Operator) -> str:
    """`conv2d`, `group_norm`, `prelu`."""
    name = op.name.rpartition(".")[2]
    if op.family is Family.ACTIVATION:
        return name.lower()
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
