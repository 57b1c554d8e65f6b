"""Rewrites `__shared__` declarations.

`__shared__ float t[32][33];` becomes a typedef and a reference into the block's shared memory, which the runtime
fills with NaN in each block; `extern __shared__ float s[];` a pointer to the launch's dynamic shared memory.
"""

from warpsmith.sim.tokens import CLOSERS, OPENERS, Token, TokenStream
from warpsmith.sim.unsupported import unsupported

_DROPPED = {b"__shared__", b"static", b"extern"}
_ALIGNMENTS = {b"__align__", b"alignas", b"__attribute__"}


def shared_memory_edits(source: bytes, stream: TokenStream, path: str) -> list[tuple[int, int, bytes]]:
    """One edit a declaration. Raises SubmissionUnsupportedError where a declaration cannot be read."""
    edits: list[tuple[int, int, bytes]] = []
    scopes = _Scopes()
    done = -1
    for i, token in enumerate(stream.tokens):
        scopes.see(stream.tokens, i)
        if token.text != b"__shared__" or i <= done:
            continue
        first = _statement_first(stream.tokens, i)
        last = _statement_last(stream, i)
        if last is None:
            raise unsupported(path, source, token.start, "a __shared__ declaration that cannot be read")
        span = stream.tokens[first:last]
        at_namespace_scope = scopes.at_namespace_scope and token.macro < 0
        text = _rewritten(span, at_namespace_scope)
        if text is None:
            raise unsupported(path, source, token.start, "a __shared__ declaration that cannot be read")
        begin, end = span[0].start, stream.tokens[last].end
        old = source[begin:end]
        text += (b"\\\n" if b"\\\n" in old else b"\n") * old.count(b"\n")
        if at_namespace_scope:
            line = source.count(b"\n", 0, end) + 1
            text = b'\n%s\n#line %d "%s"\n' % (text.strip(), line, path.encode())
        edits.append((begin, end, text))
        done = last
    return edits


class _Scopes:
    """Knows whether all open braces are those of namespaces and `extern "C"`."""

    def __init__(self) -> None:
        self._open: list[bool] = []

    @property
    def at_namespace_scope(self) -> bool:
        return all(self._open)

    def see(self, tokens: list[Token], index: int) -> None:
        token = tokens[index]
        if token.macro >= 0:
            return
        if token.text == b"{":
            before = [t.text for t in tokens[max(0, index - 8) : index]]
            while before and not {b";", b"}", b"{", b")"}.isdisjoint(before):
                before = before[1:]
            self._open.append(b"namespace" in before or before[-2:] == [b"extern", b'"C"'])
        elif token.text == b"}" and self._open:
            self._open.pop()


def _statement_first(tokens: list[Token], index: int) -> int:
    while index > 0:
        before = tokens[index - 1]
        if before.kind != "name" or before.macro != tokens[index].macro:
            break
        index -= 1
    return index


def _statement_last(stream: TokenStream, index: int) -> int | None:
    i: int | None = index
    while i is not None and i < len(stream.tokens):
        text = stream.tokens[i].text
        if text == b";":
            return i
        if text in CLOSERS:
            return None
        if text in OPENERS:
            i = stream.close(i)
            if i is None:
                return None
        i += 1
    return None


def _rewritten(span: list[Token], at_namespace_scope: bool) -> bytes | None:
    is_dynamic = any(token.text == b"extern" for token in span)
    words = _without_storage(span, keep_alignment=not is_dynamic)
    names = _declared_names(words)
    if not names:
        return None
    if is_dynamic:
        return _dynamic(words, names, at_namespace_scope)
    renamed = [b"wsim_t_" + word if i in names else word for i, word in enumerate(words)]
    text = [b"typedef " + b" ".join(renamed) + b";"]
    for name in (words[i] for i in names):
        place = b"::wsim::shared_object<wsim_t_%s, wsim_g_%s>()" % (name, name)
        text.append(b"struct wsim_g_%s {};" % name)
        if at_namespace_scope:
            text.append(b"\n#define %s (%s)\n" % (name, place))
        else:
            text.append(b"auto& %s = %s;" % (name, place))
    return b" ".join(text)


def _dynamic(words: list[bytes], names: list[int], at_namespace_scope: bool) -> bytes | None:
    if len(names) != 1 or words[names[0] + 1 : names[0] + 3] != [b"[", b"]"]:
        return None
    element = b" ".join(words[: names[0]])
    name = words[names[0]]
    place = b"::wsim::dynamic_shared<%s>()" % element
    if at_namespace_scope:
        return b"#define %s (%s)" % (name, place)
    return b"%s* const %s = %s;" % (element, name, place)


def _without_storage(span: list[Token], *, keep_alignment: bool) -> list[bytes]:
    """The words without storage class; alignment as an attribute, which a typedef may carry."""
    words: list[bytes] = []
    i = 0
    while i < len(span):
        text = span[i].text
        if text in _ALIGNMENTS and i + 1 < len(span) and span[i + 1].text == b"(":
            depth, j = 0, i + 1
            while j < len(span):
                depth += (span[j].text == b"(") - (span[j].text == b")")
                if depth == 0:
                    break
                j += 1
            inner = b" ".join(token.text for token in span[i + 2 : j])
            if keep_alignment:
                attribute = inner if text == b"__attribute__" else b"(aligned(%s))" % inner
                words.append(b"__attribute__(%s)" % attribute)
            i = j + 1
            continue
        if text not in _DROPPED:
            words.append(text)
        i += 1
    return words


def _declared_names(words: list[bytes]) -> list[int]:
    """Indices of the declared names: of each declarator the last name before its `[`."""
    names: list[int] = []
    depth = angle = 0
    candidate: int | None = None
    fixed = False
    for i, word in enumerate(words):
        if word in OPENERS:
            fixed = fixed or (word == b"[" and depth == 0 and angle == 0)
            depth += 1
        elif word in CLOSERS:
            depth -= 1
        elif depth:
            continue
        elif word == b"<":
            angle += 1
        elif word == b">":
            angle -= 1
        elif angle:
            continue
        elif word == b",":
            names += [candidate] if candidate is not None else []
            candidate, fixed = None, False
        elif not fixed and (word[:1].isalpha() or word[:1] == b"_") and not word.startswith(b"__attribute__"):
            candidate = i
    names += [candidate] if candidate is not None else []
    return names
