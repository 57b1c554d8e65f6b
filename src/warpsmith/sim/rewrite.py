"""CUDA C++ to plain C++ for the simulator's headers.

Launches, shared memory, `__constant__`, `__noinline__` and `NULL` are rewritten in place, and functions that exist
only on the device get internal linkage, as nvcc gives them. Every edit keeps its line, so that compiler errors and
sanitizers name the line of the original file.
"""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from warpsmith.sim.shared_memory import shared_memory_edits
from warpsmith.sim.tokens import Token, TokenStream, tokenize
from warpsmith.sim.unsupported import check_supported, unsupported

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

Edit = tuple[int, int, bytes]
"""Replace bytes start..end by the text."""

_NAMESPACE_SCOPES = {
    "translation_unit",
    "declaration_list",
    "namespace_definition",
    "linkage_specification",
    "template_declaration",
    "preproc_if",
    "preproc_ifdef",
    "preproc_else",
    "preproc_elif",
    "ERROR",
}
_HAS_LINKAGE = {b"static", b"extern", b"friend", b"__host__", b"typedef", b"using"}


@dataclass(frozen=True, slots=True)
class Launch:
    """Bytes of `kernel` and of the brackets in `kernel<<<config>>>`."""

    callee_start: int
    callee_end: int
    open_start: int
    close_start: int


def rewrite_source(text: str, path: str) -> str:
    """Plain C++ for g++ with the simulator's headers in front.

    `path` is the name that compiler messages should give. Raises SubmissionUnsupportedError, with path, line and
    construct, for what the simulator cannot run.
    """
    source = text.encode()
    stream = tokenize(source)
    check_supported(stream, source, path)
    root = _parser().parse(source).root_node
    edits = [
        *_launch_edits(source, stream, root, path),
        *shared_memory_edits(source, stream, path),
        *_constant_edits(stream),
        *_linkage_edits(stream, root),
        *_word_edits(stream),
    ]
    quoted = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'#include "warpsmith_sim.h"\n#line 1 "{quoted}"\n' + apply_edits(source, edits).decode()


def apply_edits(source: bytes, edits: list[Edit]) -> bytes:
    """The source with all edits made; where two overlap, the one that starts first wins."""
    pieces: list[bytes] = []
    position = 0
    for start, end, text in sorted(edits, key=lambda edit: (edit[0], edit[1])):
        if start < position:
            continue
        pieces += (source[position:start], text)
        position = end
    pieces.append(source[position:])
    return b"".join(pieces)


@cache
def _parser() -> "Parser":
    import tree_sitter
    import tree_sitter_cuda

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language()))


def _walk(root: "Node", wanted: set[str]) -> "list[Node]":
    found, pending = [], [root]
    while pending:
        node = pending.pop()
        if node.type in wanted:
            found.append(node)
        pending.extend(node.children)
    return found


# --- launches


def _launch_edits(source: bytes, stream: TokenStream, root: "Node", path: str) -> list[Edit]:
    parsed = _parsed_launches(source, root, path)
    edits: list[Edit] = []
    for index, token in enumerate(stream.tokens):
        if token.text != b"<<<":
            continue
        launch = parsed.get(token.start) or _scanned_launch(stream, index)
        if launch is None:
            raise unsupported(path, source, token.start, "a kernel launch that cannot be read")
        edits += _edits_of(source, launch)
    return edits


def _edits_of(source: bytes, launch: Launch) -> list[Edit]:
    callee = source[launch.callee_start : launch.callee_end]
    name = b" ".join(callee.replace(b"\\\n", b" ").split()).replace(b"\\", b"").replace(b'"', b"'")
    return [
        (
            launch.callee_start,
            launch.callee_start,
            b'::wsim::launcher("%s", [&](auto... wsim_args) { ' % name,
        ),
        (launch.open_start, launch.open_start + 3, b"(wsim_args...); }, ::wsim::Config("),
        (launch.close_start, launch.close_start + 3, b"))"),
    ]


def _parsed_launches(source: bytes, root: "Node", path: str) -> dict[int, Launch]:
    """Launches by the byte of their `<<<`, where the tree knows them without an error."""
    launches: dict[int, Launch] = {}
    for node in _walk(root, {"kernel_call_syntax"}):
        call = node.parent
        if call is None or call.type != "call_expression" or node.has_error:
            continue
        callee = call.children[0]
        if callee.has_error or callee.end_byte > node.start_byte:
            continue
        if _is_device_code(node):
            raise unsupported(path, source, node.start_byte, "dynamic parallelism (a launch inside a kernel)")
        close = node.end_byte - 3
        launches[node.start_byte] = Launch(callee.start_byte, callee.end_byte, node.start_byte, close)
    return launches


def _is_device_code(node: "Node") -> bool:
    parent = node.parent
    while parent is not None and parent.type != "function_definition":
        parent = parent.parent
    if parent is None:
        return False
    kinds = {child.text for child in parent.children if child.type != "compound_statement"}
    return bool(kinds & {b"__global__", b"__device__"}) and b"__host__" not in kinds


def _scanned_launch(stream: TokenStream, index: int) -> Launch | None:
    """A launch by brackets alone: in macros, and where the tree has errors."""
    tokens = stream.tokens
    close = _launch_close(tokens, index)
    first = _callee_first(stream, index - 1)
    if close is None or first is None:
        return None
    return Launch(tokens[first].start, tokens[index - 1].end, tokens[index].start, close)


def _launch_close(tokens: list[Token], index: int) -> int | None:
    depth = 0
    run = 0
    for i in range(index + 1, len(tokens)):
        token = tokens[i]
        if token.text == b">" and depth == 0:
            run = run + 1 if run and tokens[i - 1].end == token.start else 1
            following = tokens[i + 1] if i + 1 < len(tokens) else None
            if run >= 3 and not (following and following.text == b">" and following.start == token.end):
                return token.end - 3
            continue
        run = 0
        if token.kind == "punct":
            depth += (token.text in (b"(", b"[", b"{")) - (token.text in (b")", b"]", b"}"))
        if depth < 0:
            return None
    return None


def _callee_first(stream: TokenStream, last: int) -> int | None:
    """Index of the first token of the kernel expression that ends at `last`."""
    tokens = stream.tokens
    if last < 0:
        return None
    if tokens[last].text == b")":
        return stream.open(last)
    i: int | None = last
    if tokens[last].text == b">":
        i = _template_name(stream, last)
    if i is None or tokens[i].kind != "name":
        return None
    while i >= 2 and tokens[i - 1].text == b"::" and tokens[i - 2].kind == "name":
        i -= 2
    return i - 1 if i >= 1 and tokens[i - 1].text == b"::" else i


def _template_name(stream: TokenStream, last: int) -> int | None:
    depth, i = 0, last
    while i > 0:
        text = stream.tokens[i].text
        if text == b")":
            opened = stream.open(i)
            if opened is None:
                return None
            i = opened
        elif text == b">":
            depth += 1
        elif text == b"<":
            depth -= 1
            if depth == 0:
                return i - 1
        elif text in (b";", b"{", b"}"):
            return None
        i -= 1
    return None


# --- words and linkage


def _word_edits(stream: TokenStream) -> list[Edit]:
    words = {b"NULL": b"nullptr", b"__noinline__": b"__attribute__((noinline))"}
    return [(token.start, token.end, words[token.text]) for token in stream.tokens if token.text in words]


def _constant_edits(stream: TokenStream) -> list[Edit]:
    """`__constant__` variables belong to their file, so that two files may use one name."""
    edits: list[Edit] = []
    for i, token in enumerate(stream.tokens):
        if token.text == b"__constant__":
            before = stream.tokens[max(0, i - 4) : i]
            while any(other.text in (b";", b"}", b"{") for other in before):
                before = before[1:]
            has_linkage = any(other.text in _HAS_LINKAGE for other in before)
            edits.append((token.start, token.end, b"" if has_linkage else b"static"))
    return edits


def _linkage_edits(stream: TokenStream, root: "Node") -> list[Edit]:
    """Device-only functions and variables, and kernel templates, get internal linkage, as nvcc gives them."""
    edits: list[Edit] = []
    for node in _walk(root, {"function_definition", "declaration"}):
        declarator = node.child_by_field_name("declarator")
        if declarator is None or not _at_namespace_scope(node):
            continue
        first = stream.at(node.start_byte)
        words = {t.text for t in stream.tokens[first : stream.at(declarator.start_byte)]}
        parent = node.parent
        is_template = parent is not None and parent.type == "template_declaration"
        wanted = b"__device__" in words or (b"__global__" in words and is_template)
        if not wanted or words & _HAS_LINKAGE or b"__constant__" in words or _is_qualified(declarator):
            continue
        if is_template and _is_specialization(parent):
            if b"inline" not in words and b"__forceinline__" not in words and b"__inline__" not in words:
                edits.append((node.start_byte, node.start_byte, b"inline "))
        else:
            edits.append((node.start_byte, node.start_byte, b"static "))
    return edits


def _at_namespace_scope(node: "Node") -> bool:
    parent = node.parent
    while parent is not None:
        if parent.type not in _NAMESPACE_SCOPES:
            return False
        parent = parent.parent
    return True


def _is_qualified(declarator: "Node") -> bool:
    inner: Node | None = declarator
    while inner is not None:
        if inner.type == "qualified_identifier":
            return True
        inner = inner.child_by_field_name("declarator")
    return False


def _is_specialization(template: "Node | None") -> bool:
    parameters = template.child_by_field_name("parameters") if template is not None else None
    return parameters is not None and parameters.named_child_count == 0
