"""Finds `extern "C" void NAME_launcher(T* …, scalars …, cudaStream_t stream)` in CUDA sources."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warpsmith.compile.c_types import TYPES, CType, Kind, canonical
from warpsmith.errors import CompileFailedError, MissingExtraError

if TYPE_CHECKING:
    from tree_sitter import Node

SUFFIX = "_launcher"
_STREAMS = frozenset({"cudaStream_t", "CUstream"})


@dataclass(frozen=True)
class Parameter:
    """One argument of a launcher. `default` is a Python literal, or None where the argument is required."""

    name: str
    declared: str
    type: CType
    pointer: bool
    default: str | None = None


@dataclass(frozen=True)
class Launcher:
    """One function to expose as `name`; the trailing stream is not among `parameters`."""

    name: str
    parameters: tuple[Parameter, ...]
    path: str
    line: int

    @property
    def symbol(self) -> str:
        """The function's name in the library."""
        return self.name + SUFFIX


def find_launchers(files: Mapping[str, str]) -> tuple[Launcher, ...]:
    """Every launcher defined in `files` (path → CUDA C++ text), by name.

    Raises CompileFailedError where a launcher's signature cannot be bound or two of a name differ.
    """
    trees = {path: _parse(text) for path, text in files.items()}
    aliases = _aliases(trees.values())
    found: dict[str, Launcher] = {}
    for path, root in trees.items():
        for definition in _extern_c_definitions(root):
            launcher = _launcher(definition, path, aliases)
            if launcher is None:
                continue
            first = found.setdefault(launcher.name, launcher)
            if first.parameters != launcher.parameters:
                raise CompileFailedError(
                    f"{path}:{launcher.line}: {launcher.symbol} is defined with another signature at "
                    f"{first.path}:{first.line}; keep one"
                )
    return tuple(found[name] for name in sorted(found))


def _parse(text: str) -> "Node":
    try:
        import tree_sitter
        import tree_sitter_cuda
    except ImportError as error:
        raise MissingExtraError(
            "compiling needs tree-sitter and tree-sitter-cuda", hint="pip install 'warpsmith[judge]'"
        ) from error
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language()))
    return parser.parse(text.encode()).root_node


def _walk(node: "Node") -> Iterator["Node"]:
    """Every node outside function bodies."""
    # a stack of its own: deeply nested sources must not exhaust Python's
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        if current.type != "compound_statement":
            stack.extend(reversed(current.children))


def _text(node: "Node") -> str:
    return (node.text or b"").decode()


def _spelled(node: "Node") -> str:
    return canonical(" ".join(_text(node).split()))


def _aliases(roots: Iterable["Node"]) -> dict[str, set[str]]:
    """Plain `typedef` and `using` names → what they stand for, over every file."""
    aliases: dict[str, set[str]] = {}
    for root in roots:
        for node in _walk(root):
            target = node.child_by_field_name("type")
            if target is None:
                continue
            if node.type == "type_definition":
                name = node.child_by_field_name("declarator")
            elif node.type == "alias_declaration":
                name = node.child_by_field_name("name")
                if target.child_by_field_name("declarator") is not None:
                    continue
                target = target.child_by_field_name("type") or target
            else:
                continue
            if name is not None and name.type == "type_identifier":
                aliases.setdefault(_text(name), set()).add(_spelled(target))
    return aliases


def _extern_c_definitions(root: "Node") -> Iterator["Node"]:
    for node in _walk(root):
        if node.type != "linkage_specification":
            continue
        value = node.child_by_field_name("value")
        body = node.child_by_field_name("body")
        if value is None or body is None or _text(value) != '"C"':
            continue
        yield from (inner for inner in _walk(body) if inner.type == "function_definition")


def _launcher(definition: "Node", path: str, aliases: dict[str, set[str]]) -> Launcher | None:
    function = definition.child_by_field_name("declarator")
    pointer = False
    while function is not None and function.type != "function_declarator":
        pointer = True
        function = function.child_by_field_name("declarator")
    name = function.child_by_field_name("declarator") if function is not None else None
    if function is None or name is None or not _text(name).endswith(SUFFIX):
        return None
    symbol, line = _text(name), definition.start_point[0] + 1
    where = f"{path}:{line}: {symbol}"
    if any(c.type == "storage_class_specifier" and _text(c) == "static" for c in definition.children):
        raise CompileFailedError(f"{where} is static and cannot be called from Python; remove `static`")
    returned = definition.child_by_field_name("type")
    if pointer or returned is None or _text(returned) != "void":
        raise CompileFailedError(f"{where} must return void; write results through a pointer argument")
    if not re.fullmatch(rf"[A-Za-z]\w*{SUFFIX}", symbol):
        raise CompileFailedError(f"{where} needs a name that starts with a letter")
    parameters = function.child_by_field_name("parameters")
    nodes = [c for c in parameters.children if c.type.endswith("parameter_declaration")] if parameters else []
    if not nodes or not _is_stream(nodes[-1]):
        raise CompileFailedError(
            f"{where} must take `cudaStream_t stream` as its last parameter, and launch on it"
        )
    bound = tuple(_parameter(node, index, where, aliases) for index, node in enumerate(nodes[:-1]))
    return Launcher(symbol.removesuffix(SUFFIX), _keep_trailing_defaults(bound), path, line)


def _is_stream(node: "Node") -> bool:
    type_node, declarator = node.child_by_field_name("type"), node.child_by_field_name("declarator")
    plain = declarator is None or declarator.type == "identifier"
    return plain and type_node is not None and _spelled(type_node) in _STREAMS


def _parameter(node: "Node", index: int, where: str, aliases: dict[str, set[str]]) -> Parameter:
    type_node = node.child_by_field_name("type")
    declarator = node.child_by_field_name("declarator")
    default = node.child_by_field_name("default_value")
    written = _text(node) if default is None else _text(node)[: default.start_byte - node.start_byte]
    declared = " ".join(written.rstrip(" =\n\t").split())
    depth, name = 0, f"arg{index}"
    while declarator is not None:
        if declarator.type in ("identifier", "field_identifier"):
            name = _text(declarator)
            break
        if "pointer" in declarator.type or "array" in declarator.type:
            depth += 1
        elif declarator.type not in ("parenthesized_declarator", "attributed_declarator"):
            depth = 99
        declarator = declarator.child_by_field_name("declarator")
    if depth > 1 or type_node is None:
        raise CompileFailedError(
            f"{where}: parameter `{declared}` cannot be passed from Python; "
            "take a plain pointer for each tensor, or a number"
        )
    spelled = _resolve(_spelled(type_node), aliases)
    kind = TYPES.get(spelled)
    if kind is None or (not depth and kind.kind is Kind.POINTEE):
        raise CompileFailedError(
            f"{where}: parameter `{declared}` has a type that cannot be passed from Python; "
            "use float, double, half, bfloat16, an integer, bool, or a pointer to one (void* takes any)"
        )
    return Parameter(name, declared, kind, bool(depth), _literal(default, bool(depth), kind))


def _resolve(spelled: str, aliases: dict[str, set[str]]) -> str:
    seen: set[str] = set()
    while spelled not in TYPES and len(aliases.get(spelled, ())) == 1 and spelled not in seen:
        seen.add(spelled)
        (spelled,) = aliases[spelled]
    return spelled


def _literal(default: "Node | None", pointer: bool, kind: CType) -> str | None:
    """A C++ default value as a Python literal, or None where it is no plain literal."""
    if default is None:
        return None
    text = _text(default)
    if pointer:
        return "None" if text in ("nullptr", "NULL", "0") else None
    if text in ("true", "false"):
        return text.capitalize()
    if kind.kind in (Kind.INTEGER, Kind.BOOL):
        match = re.fullmatch(r"(-?)(0|[1-9][0-9]*)[uUlL]*", text)
        return match[1] + match[2] if match else None
    match = re.fullmatch(r"(-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFlL]?", text)
    return repr(float(match[1])) if match else None


def _keep_trailing_defaults(parameters: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
    # Python wants defaults last; one that could not be carried over makes those before it required too
    last_required = max((i for i, p in enumerate(parameters) if p.default is None), default=-1)
    return tuple(
        Parameter(p.name, p.declared, p.type, p.pointer) if i < last_required else p
        for i, p in enumerate(parameters)
    )
