"""Nested Python values as a JSON-able spec plus a list of tensors, and back.

Both sides of the judge use this: torch and the standard library only. A spec node is a dict with one key:

    {"t": i}  {"none": 1}  {"bool": b}  {"int": n}  {"float": hex}  {"str": s}  {"dtype": name}
    {"list": [node...]}  {"tuple": [node...]}  {"dict": [[key, node]...]}
    {"named": [class name, "tuple" | "dict" | "dataclass", [[field, node]...]]}

Tensors are numbered 0, 1, 2... in the order in which they stand in the spec, each exactly once.
"""

import dataclasses
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch

MAX_DEPTH = 64
MAX_NODES = 10_000
MAX_TEXT = 1 << 16
_INT_LIMIT = 1 << 63
_NAMED_KINDS = ("tuple", "dict", "dataclass")
_Step = Callable[[str, object], str]


class UnsupportedValue(TypeError):
    """A value that cannot cross between the judge and the candidate. `path` says where, `type_name` what."""

    def __init__(self, path: str, type_name: str):
        super().__init__(f"{path} is a {type_name}, which the judge cannot take")
        self.path = path
        self.type_name = type_name


@dataclasses.dataclass(frozen=True)
class Named:
    """What a namedtuple, dataclass or dict subclass becomes on the far side: no class is imported by name."""

    name: str
    kind: str
    fields: dict[str, Any]


def flatten(
    value: object, *, root: str = "out", allow_named: bool = True
) -> tuple[dict[str, Any], list[torch.Tensor]]:
    """Splits `value` into a spec and its tensors (detached, sharing memory).

    Raises UnsupportedValue for anything but plain strided tensors, None, bool, int below 2^63, float, str,
    torch.dtype, and lists, tuples, str/int-keyed dicts, namedtuples and dataclasses of these. Results of
    torch operators (`torch.return_types`) count as plain tuples. `root` names the value in messages.
    """
    flattener = _Flattener(allow_named)
    return flattener.node(value, root, 0), flattener.tensors


class _Flattener:
    def __init__(self, allow_named: bool):
        self.allow_named = allow_named
        self.tensors: list[torch.Tensor] = []
        self.nodes = 0

    def node(self, value: Any, path: str, depth: int) -> dict[str, Any]:
        self.nodes += 1
        if depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise UnsupportedValue(path, f"{type(value).__name__} nested too deep or with too many parts")
        if isinstance(value, torch.Tensor):
            return self._tensor(value, path)
        leaf = _leaf(value)
        if leaf is not None:
            return leaf
        kind = type(value)
        if kind is list:
            return {"list": self._items(value, path, depth)}
        if kind in (tuple, torch.Size) or kind.__module__ == "torch.return_types":
            return {"tuple": self._items(value, path, depth)}
        if kind in (dict, OrderedDict):
            return {"dict": self._pairs(value, path, depth, _item_path)}
        named = _named(value) if self.allow_named else None
        if named is None:
            raise UnsupportedValue(path, kind.__name__)
        return {"named": [named.name, named.kind, self._pairs(named.fields, path, depth, _field_path)]}

    def _tensor(self, value: torch.Tensor, path: str) -> dict[str, Any]:
        # A subclass could compute lazily, long after the clock has stopped.
        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            raise UnsupportedValue(path, type(value).__name__)
        if value.layout is not torch.strided or value.is_quantized or value.device.type == "meta":
            raise UnsupportedValue(path, f"Tensor ({value.layout}, {value.dtype}, {value.device.type})")
        # Lazy conjugation and negation are not part of the memory that the other side reads.
        self.tensors.append(value.detach().resolve_conj().resolve_neg())
        return {"t": len(self.tensors) - 1}

    def _items(self, value: Any, path: str, depth: int) -> list[dict[str, Any]]:
        return [self.node(v, f"{path}[{i}]", depth + 1) for i, v in enumerate(value)]

    def _pairs(self, value: Any, path: str, depth: int, step: _Step) -> list[list[Any]]:
        for key in value:
            if not _is_key(key):
                raise UnsupportedValue(path, f"dict with a key of type {type(key).__name__}")
        return [[k, self.node(v, step(path, k), depth + 1)] for k, v in value.items()]


def _leaf(value: object) -> dict[str, Any] | None:
    kind = type(value)
    if value is None:
        return {"none": 1}
    if kind is bool:
        return {"bool": value}
    if kind is float:
        return {"float": value.hex()}
    if kind is int and _fits(value):
        return {"int": value}
    if kind is str and _fits(value):
        return {"str": value}
    if kind is torch.dtype:
        return {"dtype": dtype_name(value)}
    return None


def _is_key(key: object) -> bool:
    return type(key) in (str, int) and _fits(key)


def _fits(value: str | int) -> bool:
    return len(value) <= MAX_TEXT if isinstance(value, str) else -_INT_LIMIT <= value < _INT_LIMIT


def _named(value: Any) -> Named | None:
    name = type(value).__name__
    if isinstance(value, Named):
        return value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return Named(name, "tuple", dict(zip(value._fields, value, strict=True)))
    if isinstance(value, dict):
        return Named(name, "dict", dict(value.items()))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return Named(name, "dataclass", {f.name: getattr(value, f.name) for f in dataclasses.fields(value)})
    return None


def _item_path(path: str, key: object) -> str:
    return f"{path}[{key!r}]"


def _field_path(path: str, key: object) -> str:
    return f"{path}.{key}"


def unflatten(spec: object, tensors: list[torch.Tensor]) -> Any:
    """Rebuilds a value. Strict, for specs from a hostile process: anything malformed raises ValueError.

    Every tensor must be named once, in order. Named values come back as `Named`.
    """
    builder = _Builder(tensors)
    value = builder.value(spec, 0)
    if builder.used != len(tensors):
        raise ValueError(f"spec names {builder.used} of {len(tensors)} tensors")
    return value


class _Builder:
    def __init__(self, tensors: list[torch.Tensor]):
        self.tensors = tensors
        self.used = 0
        self.nodes = 0

    def value(self, spec: object, depth: int) -> Any:
        self.nodes += 1
        if depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise ValueError("spec is nested too deep or has too many parts")
        if type(spec) is not dict or len(spec) != 1:
            raise ValueError("a spec node must be a dict with one key")
        ((tag, body),) = spec.items()
        if tag == "t":
            return self._tensor(body)
        if tag == "list":
            return self._items(body, depth)
        if tag == "tuple":
            return tuple(self._items(body, depth))
        if tag == "dict":
            return self._pairs(body, depth)
        if tag == "named":
            return self._named(body, depth)
        return _leaf_value(tag, body)

    def _tensor(self, body: object) -> torch.Tensor:
        if type(body) is not int or body != self.used or body >= len(self.tensors):
            raise ValueError("spec names a tensor out of order or one that does not exist")
        self.used += 1
        return self.tensors[body]

    def _items(self, body: object, depth: int) -> list[Any]:
        if type(body) is not list:
            raise ValueError("list and tuple nodes need a list")
        return [self.value(item, depth + 1) for item in body]

    def _pairs(self, body: object, depth: int) -> dict[Any, Any]:
        if type(body) is not list:
            raise ValueError("dict nodes need a list of pairs")
        result: dict[Any, Any] = {}
        for pair in body:
            if type(pair) is not list or len(pair) != 2 or not _is_key(pair[0]):
                raise ValueError("a dict entry must be [key, node]")
            if pair[0] in result:
                raise ValueError("a dict key stands twice")
            result[pair[0]] = self.value(pair[1], depth + 1)
        return result

    def _named(self, body: object, depth: int) -> Named:
        if type(body) is not list or len(body) != 3:
            raise ValueError("named nodes need [name, kind, fields]")
        name, kind, fields = body
        if type(name) is not str or len(name) > MAX_TEXT or type(kind) is not str or kind not in _NAMED_KINDS:
            raise ValueError("unknown kind of named node")
        return Named(name, kind, self._pairs(fields, depth))


def _leaf_value(tag: object, body: object) -> Any:
    if tag == "none" and type(body) is int and body == 1:
        return None
    if tag == "bool" and type(body) is bool:
        return body
    if tag == "int" and type(body) is int and _fits(body):
        return body
    if tag == "str" and type(body) is str and _fits(body):
        return body
    if tag == "float" and type(body) is str and len(body) <= 64:
        try:
            return float.fromhex(body)
        except OverflowError as e:
            raise ValueError("a float beyond the range of float") from e
    if tag == "dtype" and type(body) is str:
        return dtype_named(body)
    raise ValueError("unknown or malformed spec node")


def paths(spec: dict[str, Any], root: str = "out") -> list[str]:
    """Names of the spec's tensors in order, such as `out[0]['logits']`. The spec must be well-formed."""
    ((tag, body),) = spec.items()
    if tag == "t":
        return [root]
    if tag in ("list", "tuple"):
        return [p for i, node in enumerate(body) for p in paths(node, f"{root}[{i}]")]
    if tag == "dict":
        return [p for key, node in body for p in paths(node, _item_path(root, key))]
    if tag == "named":
        return [p for key, node in body[2] for p in paths(node, _field_path(root, key))]
    return []


def dtype_name(dtype: torch.dtype) -> str:
    """`float32` for torch.float32."""
    return str(dtype).removeprefix("torch.")


def dtype_named(name: object) -> torch.dtype:
    """The torch dtype of that name; ValueError if there is none."""
    # Not getattr: torch imports some submodules on access, and this name may come from a hostile process.
    found = vars(torch).get(name) if isinstance(name, str) else None
    if not isinstance(found, torch.dtype):
        raise ValueError("no such dtype")
    return found


def tensor_meta(tensor: torch.Tensor) -> dict[str, Any]:
    """JSON-able `{"dtype": name, "shape": [sizes]}` of a strided tensor."""
    return {"dtype": dtype_name(tensor.dtype), "shape": list(tensor.shape)}
