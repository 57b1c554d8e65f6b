"""Tokens of C++ text: enough to find names and brackets outside comments, strings and dead preprocessor branches."""

import re
from bisect import bisect_left
from dataclasses import dataclass

_TOKEN = re.compile(
    rb"""
    (?P<skip> \s+ | \\\r?\n | //(?:\\\r?\n|[^\n])* | /\*.*?\*/ )
  | (?P<directive> (?<![^\n])[ \t]*\#(?:\\\r?\n|/\*.*?\*/|//[^\n]*|[^\n])* )
  | (?P<string> (?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)"
              | (?:u8|[uUL])?"(?:\\.|[^"\\\n])*" | (?:u8|[uUL])?'(?:\\.|[^'\\\n])+' )
  | (?P<name> [A-Za-z_]\w* )
  | (?P<number> \.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])* )
  | (?P<punct> <<< | :: | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_DIRECTIVE = re.compile(rb"\s*#\s*(\w*)\s*(.*)", re.DOTALL)
_DEFINE = re.compile(rb"\s*#\s*define\s+\w+(?:\([^)]*\))?")
_ARCH_BRANCH = re.compile(rb"__CUDA_ARCH__\s*>|__CUDA_ARCH__\s*==|(?<!!)\bdefined\s*\(?\s*__CUDA_ARCH__")

OPENERS = {b"(": b")", b"[": b"]", b"{": b"}"}
CLOSERS = {closer: opener for opener, closer in OPENERS.items()}


@dataclass(frozen=True, slots=True)
class Token:
    """`text` at bytes `start`..`end`. `kind`: name, number, string, punct. `macro`: start of its `#define`, or -1."""

    kind: str
    text: bytes
    start: int
    end: int
    macro: int = -1


@dataclass(frozen=True, slots=True)
class Include:
    """One `#include` and the byte where it stands."""

    target: str
    start: int


@dataclass(frozen=True, slots=True)
class TokenStream:
    """Tokens of the live branches in order, and the includes."""

    tokens: list[Token]
    includes: list[Include]
    starts: list[int]

    def at(self, start: int) -> int:
        """Index of the first token that starts at byte `start` or later."""
        return bisect_left(self.starts, start)

    def close(self, index: int) -> int | None:
        """Index of the bracket that closes the one at `index`, or None."""
        depth = 0
        for i in range(index, len(self.tokens)):
            text = self.tokens[i].text
            if self.tokens[i].kind == "punct":
                depth += (text in OPENERS) - (text in CLOSERS)
                if depth == 0:
                    return i
        return None

    def open(self, index: int) -> int | None:
        """Index of the bracket that opens the one closed at `index`, or None."""
        depth = 0
        for i in range(index, -1, -1):
            text = self.tokens[i].text
            if self.tokens[i].kind == "punct":
                depth += (text in CLOSERS) - (text in OPENERS)
                if depth == 0:
                    return i
        return None


class _Branches:
    """Whether the text at hand is compiled: branches that need a GPU architecture and `#if 0` are not."""

    def __init__(self) -> None:
        self._stack: list[tuple[bool, bool]] = []  # (this branch is live, an #else would be live)

    @property
    def live(self) -> bool:
        return all(live for live, _ in self._stack)

    def directive(self, word: bytes, rest: bytes) -> None:
        if word in (b"if", b"ifdef", b"ifndef"):
            condition = b"defined(" + rest.strip() + b")" if word == b"ifdef" else rest
            dead = word != b"ifndef" and self._dead(condition)
            self._stack.append((not dead, True))
        elif word == b"elif" and self._stack:
            self._stack[-1] = (not self._dead(rest), True)
        elif word == b"else" and self._stack:
            self._stack[-1] = (self._stack[-1][1], True)
        elif word == b"endif" and self._stack:
            self._stack.pop()

    @staticmethod
    def _dead(condition: bytes) -> bool:
        if b"||" in condition:
            return False
        return condition.strip() == b"0" or _ARCH_BRANCH.search(condition) is not None


def tokenize(source: bytes) -> TokenStream:
    """Tokens of C++ source, macro bodies included; comments, directives and dead branches left out."""
    tokens: list[Token] = []
    includes: list[Include] = []
    branches = _Branches()
    _scan(source, 0, len(source), -1, tokens, includes, branches)
    return TokenStream(tokens, includes, [token.start for token in tokens])


def _scan(
    source: bytes,
    start: int,
    end: int,
    macro: int,
    tokens: list[Token],
    includes: list[Include],
    branches: _Branches,
) -> None:
    position = start
    while position < end:
        match = _TOKEN.match(source, position, end)
        if match is None:  # an unfinished comment or string: the compiler will say so
            position += 1
            continue
        position = match.end()
        kind = match.lastgroup if match.lastgroup != "delimiter" else "string"
        if kind == "directive" and macro < 0:
            word, rest = _DIRECTIVE.match(match[0]).groups()  # type: ignore[union-attr]
            branches.directive(word, rest)
            if not branches.live:
                continue
            if word == b"include":
                includes.append(Include(rest.split(b"//")[0].strip().decode(errors="replace"), match.start()))
            elif word == b"define":
                body = _DEFINE.match(source, match.start(), match.end())
                if body:
                    _scan(source, body.end(), match.end(), match.start(), tokens, includes, branches)
        elif kind not in ("skip", "directive", None) and branches.live:
            tokens.append(Token(kind, match[0], match.start(), match.end(), macro))
