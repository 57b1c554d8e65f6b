"""A captured graph becomes a Program: what the IR holds is lowered, the rest stays a torch call."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from warpsmith.errors import TaskUnsupportedError
from warpsmith.optimizer.capture import Captured
from warpsmith.optimizer.composites import COMPOSITES
from warpsmith.optimizer.ir import (
    C_TYPES,
    Buffer,
    Call,
    Const,
    Define,
    NotRepresentableError,
    Program,
    Raw,
    TensorRef,
    Value,
    tensor_refs,
)
from warpsmith.optimizer.library_ops import LIBRARY
from warpsmith.optimizer.lowering import Lowering
from warpsmith.optimizer.pointwise import POINTWISE
from warpsmith.optimizer.view_ops import VIEWS

_TAKEN = re.compile(r"t\d+|scratch\w*|self|torch|device|cuda_extension|nn")
CASTS = frozenset({"to", "_to_copy", "type_as", "float", "half", "bfloat16"})
FACTORIES = frozenset({"full", "zeros", "ones", "full_like", "zeros_like", "ones_like", "scalar_tensor"})


def lower(captured: Captured, *, libraries: bool = True) -> Program:
    """Lower an exported model. Raises TaskUnsupportedError where even torch calls cannot express it.

    `libraries`: products and convolutions are steps of ours that call cuBLASLt and cuDNN, else torch calls.
    """
    return _GraphLowering(captured, LIBRARY if libraries else {}).run()


class _GraphLowering:
    def __init__(self, captured: Captured, library: dict[str, Callable[..., object]]) -> None:
        self.captured = captured
        self.library = library
        self.lo = Lowering()
        self.values: dict[Any, Any] = {}

    def run(self) -> Program:
        exported = self.captured.exported
        signature = exported.graph_signature
        if any("MUTATION" in spec.kind.name for spec in signature.output_specs):
            raise TaskUnsupportedError("the model changes its inputs or buffers in forward")
        specs = iter(signature.input_specs)
        for node in exported.graph.nodes:
            if node.op == "placeholder":
                self.values[node] = self._placeholder(node, next(specs))
            elif node.op == "call_function":
                self.values[node] = self._function(node)
            elif node.op == "output":
                self._output(node)
            else:
                raise TaskUnsupportedError(f"the captured graph holds a {node.op} node ({node.target})")
        self._drop_unused()
        return self.lo.program

    def _placeholder(self, node: Any, spec: Any) -> object:
        program = self.lo.program
        meta = node.meta.get("val")
        if spec.kind.name == "USER_INPUT":
            if not hasattr(meta, "dtype"):
                raw = Raw(repr(spec.arg.value))
                program.inputs.append(raw)
                return raw
            code = node.name if not _TAKEN.fullmatch(node.name) else f"{node.name}_"
            buffer = Buffer(f"in_{node.name}", tuple(meta.shape), _dtype(meta), "input", code)
            program.inputs.append(buffer)
        elif str(spec.target) in self.captured.constants:
            constant = self.captured.constants[str(spec.target)]
            if constant.numel() == 1:
                return self.lo.constant(constant.item(), tuple(meta.shape), _dtype(meta))
            name = f"const_{node.name}"
            buffer = Buffer(name, tuple(meta.shape), _dtype(meta), "state", f"self.{name}")
            self.captured.constants[name] = constant
        else:
            buffer = Buffer(
                node.name, tuple(meta.shape), _dtype(meta), "state", attribute_code(str(spec.target))
            )
        if 0 in buffer.shape:
            raise TaskUnsupportedError(f"the tensor {node.name} is empty")
        program.buffers[buffer.name] = buffer
        return self.lo.load(buffer)

    def _function(self, node: Any) -> object:
        target = node.target
        if getattr(target, "__name__", "") == "getitem":
            return self.values[node.args[0]][node.args[1]]
        if not hasattr(target, "_schema"):
            raise TaskUnsupportedError(f"operator {target} cannot be captured")
        if not target._schema.returns:
            return None  # an assertion of the exporter: shapes and dtypes are checked by forward()
        name = target._schema.name.removeprefix("aten::")
        if target._overloadname == "other":
            name = {"max": "maximum", "min": "minimum"}.get(name, name)
        self.lo.arena.label = (node.name, name)
        mark = len(self.lo.program.notes)
        for attempt in (self._operands, self._stored_operands):
            try:
                out = self._lowered(node, name, attempt(node))
                return self._shared(out, node)
            except NotRepresentableError:
                del self.lo.program.notes[mark:]
        return self._call(node, target)

    def _shared(self, out: object, node: Any) -> object:
        if isinstance(out, Value) and len(node.users) > 1:
            return self.lo.shared(out)
        return out

    def _bound(self, node: Any) -> dict[str, object]:
        """The node's arguments by schema name."""
        schema = node.target._schema.arguments
        bound = {schema[i].name: arg for i, arg in enumerate(node.args)}
        bound.update(node.kwargs)
        return bound

    def _operands(self, node: Any) -> dict[str, object]:
        return {k: self._resolve(v) for k, v in self._bound(node).items()}

    def _stored_operands(self, node: Any) -> dict[str, object]:
        return {k: self._resolve(v, self.lo.stored) for k, v in self._bound(node).items()}

    def _resolve(self, arg: object, change: Callable[[Value], Value] | None = None) -> object:
        if arg in self.values if _hashable(arg) else False:
            value = self.values[arg]
            if isinstance(value, Raw):
                raise NotRepresentableError("a scalar argument")
            if value is None:
                raise NotRepresentableError("an output that only the torch call has")
            return change(value) if change and isinstance(value, Value) else value
        if isinstance(arg, list | tuple):
            return [self._resolve(a, change) for a in arg]
        return arg

    def _lowered(self, node: Any, name: str, given: dict[str, Any]) -> object:
        meta = node.meta.get("val")
        if hasattr(meta, "dtype") and 0 in meta.shape:
            raise NotRepresentableError("an empty tensor")
        if any(isinstance(v, Value) and v.dtype not in C_TYPES for v in given.values()):
            raise NotRepresentableError("a dtype")
        if name in CASTS:
            return self._cast(given["self"], _dtype(meta))
        if name in FACTORIES:
            return self._factory(name, given, meta)
        if name in VIEWS:
            given.pop("memory_format", None)
            out = _built(VIEWS[name], self.lo, given)
        elif name in POINTWISE:
            _bindable(POINTWISE[name], given)
            out = self.lo.apply(name, _dtype(meta), **self._scalars(given))
        elif name in COMPOSITES:
            out = _built(COMPOSITES[name], self.lo, given)
            if isinstance(out, tuple) and None in out:
                self._first_only(node, name)
        elif name in self.library:
            out = _built(self.library[name], self.lo, given)
        else:
            raise NotRepresentableError(name)
        return self._typed(out, meta)

    def _scalars(self, given: dict[str, Any]) -> dict[str, Any]:
        """Zero-dimensional constant tensors as Python scalars, so that they cost no load."""
        tensors = [v for v in given.values() if isinstance(v, Value)]
        out = dict(given)
        for key, value in given.items():
            if isinstance(value, Value) and len(tensors) > 1 and not value.dims:
                node = self.lo.arena.nodes[value.expr]
                if isinstance(node, Const):
                    out[key] = node.value
        return out

    def _first_only(self, node: Any, name: str) -> None:
        """Where only the first result is ours and another is used, the call stays torch's."""
        several = isinstance(node.meta.get("val"), tuple | list)
        if several and any(user.args[1] != 0 and user.users for user in node.users):
            raise NotRepresentableError(f"{name} with its further results")

    def _typed(self, out: object, meta: Any) -> object:
        if isinstance(out, Value):
            if tuple(meta.shape) != out.shape:
                raise NotRepresentableError(f"shape {out.shape} where torch gives {tuple(meta.shape)}")
            return self.lo.check(Value(out.dims, out.expr, _dtype(meta)))
        if isinstance(out, list | tuple):
            return tuple(self._typed(o, m) if o is not None else None for o, m in zip(out, meta, strict=True))
        return out

    def _cast(self, value: Value, dtype: str) -> Value:
        if dtype == value.dtype:
            return value
        if dtype == "float32" or (
            dtype in ("int64", "int32") and value.dtype in ("bool", "int32", "int64", "float32")
        ):
            kinds = {"float32": "to_float"}
            node_kind = self.lo.arena.nodes[value.expr].kind
            if dtype == "float32" and node_kind == "f":
                return self.lo.stored(value) if value.dtype != "float32" else value
            op = kinds.get(dtype, "to_int")
            expr = self.lo.arena.op(op, value.expr, kind="f" if dtype == "float32" else "i")
            return Value(value.dims, expr, dtype)
        raise NotRepresentableError(f"a cast to {dtype}")

    def _factory(self, name: str, given: dict[str, Any], meta: Any) -> Value:
        fill = given.get("fill_value", given.get("s", 0.0 if name.startswith("zeros") else 1.0))
        if isinstance(fill, Value):
            raise NotRepresentableError("a fill value that is a tensor")
        return self.lo.check(self.lo.constant(fill, tuple(meta.shape), _dtype(meta)))

    def _call(self, node: Any, target: Any) -> object:
        """Keep the operator as it is, on buffers."""
        args = tuple(self._argument(a) for a in node.args)
        kwargs = tuple((k, self._argument(v)) for k, v in node.kwargs.items())
        meta = node.meta.get("val")
        many = isinstance(meta, list | tuple)
        metas = list(meta) if many else [meta]
        names: list[str | None] = []
        values: list[object] = []
        for m in metas:
            if not hasattr(m, "dtype"):
                raise TaskUnsupportedError(f"operator {target} gives no tensor and cannot be captured")
            if 0 in m.shape:
                raise TaskUnsupportedError(f"operator {target} gives an empty tensor")
            buffer = self.lo.new_buffer(tuple(m.shape), _dtype(m))
            names.append(buffer.name)
            values.append(self.lo.load(buffer))
        text = str(target).removeprefix("torch.ops.")
        self.lo.program.steps.append(Call(tuple(names), many, text, args, kwargs))
        return tuple(values) if many else values[0]

    def _argument(self, arg: object) -> object:
        if _hashable(arg) and arg in self.values:
            value = self.values[arg]
            if isinstance(value, Value):
                return self.lo.tensor_ref(value)
            if isinstance(value, Raw):
                return value
            raise TaskUnsupportedError("an operator takes a result that we do not hold")
        if isinstance(arg, list | tuple):
            return [self._argument(a) for a in arg]
        return Raw(_python(arg))

    def _output(self, node: Any) -> None:
        import torch.utils._pytree as pytree

        flat = []
        for item in node.args[0]:
            value = self.values[item] if _hashable(item) and item in self.values else item
            self.lo.arena.label = None
            flat.append(self.lo.tensor_ref(value) if isinstance(value, Value) else _raw(value))
        self.lo.program.result = pytree.tree_unflatten(flat, self.captured.exported.call_spec.out_spec)

    def _drop_unused(self) -> None:
        """Remove steps whose buffers nothing reads."""
        program = self.lo.program
        needed = {ref.buf for ref in tensor_refs(program.result)}
        kept: list[Define | Call] = []
        for step in reversed(program.steps):
            if isinstance(step, Define):
                if step.buf not in needed:
                    continue
                needed |= {load.buf for load in program.arena.loads(step.expr)}
            else:
                if not any(name in needed for name in step.outs):
                    continue
                step = replace(step, outs=tuple(n if n in needed else None for n in step.outs))
                needed |= {r.buf for r in tensor_refs((step.args, [v for _, v in step.kwargs]))}
            kept.append(step)
        program.steps = kept[::-1]


def attribute_code(target: str) -> str:
    """Python that reads a parameter by its dotted name: `self.a.b`, `self.layers._modules["0"].weight`."""
    *path, leaf = target.split(".")
    code = "self"
    for part in path:
        code += f".{part}" if part.isidentifier() else f'._modules["{part}"]'
    return f"{code}.{leaf}" if leaf.isidentifier() else f'getattr({code}, "{leaf}")'


def _bindable(builder: Callable[..., object], given: dict[str, Any]) -> None:
    """Raises NotRepresentableError for an overload with arguments that the builder does not know."""
    try:
        inspect.signature(builder).bind(None, **given)
    except TypeError as error:
        raise NotRepresentableError(str(error)) from error


def _built(builder: Callable[..., object], lo: Lowering, given: dict[str, Any]) -> object:
    _bindable(builder, given)
    return builder(lo, **given)


def _dtype(meta: Any) -> str:
    return str(meta.dtype).removeprefix("torch.")


def _hashable(x: object) -> bool:
    return not isinstance(x, list | dict | slice)


def _raw(value: object) -> Raw | TensorRef:
    return value if isinstance(value, Raw) else Raw(repr(value))


def _python(arg: object) -> str:
    """Text of a non-tensor argument; devices become the first input's."""
    kind = type(arg)
    if kind.__module__.startswith("torch"):
        return "device" if kind.__name__ == "device" else str(arg)
    if isinstance(arg, float) and arg in (float("inf"), float("-inf")):
        return f'float("{arg}")'
    return repr(arg)
