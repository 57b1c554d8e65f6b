"""Which files of a submission a compiler sees, and which of them each translation unit can reach."""

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from warpsmith.errors import CompileFailedError

UNIT_SUFFIXES = frozenset({".cu", ".cpp", ".cc"})
_NOT_SOURCES = frozenset({".py", ".toml", ".md"})
_NAME = re.compile(r"(?=.{1,200}$)\w[\w.+-]*(?:/[\w.+][\w.+-]*)*", re.ASCII)
_INCLUDE = re.compile(
    r'(?:^[ \t]*#[ \t]*include(?:_next)?[ \t]*|__has_include[ \t]*\([ \t]*)(?:"([^"\n]+)"|<([^>\n]+)>)',
    re.MULTILINE,
)
_COMPUTED = re.compile(r'#\s*include(?:_next)?\s*(?![\s"<])|__has_include\s*\(\s*(?![\s"<])|\\\n\s*include')


@dataclass(frozen=True)
class SourceTree:
    """The files that take part in a build: path → text."""

    files: Mapping[str, str]

    @property
    def units(self) -> tuple[str, ...]:
        """Paths that are compiled on their own."""
        return tuple(p for p in self.files if PurePosixPath(p).suffix in UNIT_SUFFIXES)

    @cached_property
    def included(self) -> Mapping[str, frozenset[str]]:
        """Path → the operands of its literal `#include`s."""
        return {path: frozenset(name for _, name in _includes(text)) for path, text in self.files.items()}

    def visible_to(self, unit: str) -> dict[str, str]:
        """What `unit` is compiled among: itself and all it may include, directly or not.

        Nothing else is laid out beside it, so its object depends on nothing else. Names are matched by their
        last part; a file with a computed `#include` sees everything.
        """
        reached, waiting = {unit}, [unit]
        while waiting:
            path = waiting.pop()
            if _COMPUTED.search(self.files[path]):
                return dict(self.files)
            wanted = {posixpath.basename(name) for name in self.included[path]}
            found = {p for p in self.files if posixpath.basename(p) in wanted} - reached
            reached |= found
            waiting += found
        return {path: self.files[path] for path in sorted(reached)}

    def with_defaults(self, files: Mapping[str, str]) -> "SourceTree":
        """The tree with those of `files` that it lacks."""
        return SourceTree(dict(sorted({**files, **self.files}.items())))


def source_tree(files: Mapping[str, str]) -> SourceTree:
    """The build's view of a submission's files.

    Raises CompileFailedError for a file name that a compiler cannot be given, text that is not UTF-8, and a
    literal `#include` of a file outside the submission.
    """
    kept = {p: t for p, t in sorted(files.items()) if PurePosixPath(p).suffix not in _NOT_SOURCES}
    for path, text in kept.items():
        # nvcc hands names to a shell, and a leading - or @ would be an option
        if not _NAME.fullmatch(path):
            raise CompileFailedError(
                f"{path[:200]!r}: use letters, digits, `_`, `.`, `+` and `-` in file names"
            )
        if any(str(parent) in kept for parent in PurePosixPath(path).parents):
            raise CompileFailedError(f"{path}: a file stands where its folder should be")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise CompileFailedError(f"{path} is not UTF-8 text") from error
        for line, operand in _includes(text):
            inside = posixpath.normpath(posixpath.join(posixpath.dirname(path), operand))
            if operand.startswith("/") or inside.startswith("../"):
                raise CompileFailedError(f'{path}:{line}: "{operand}" lies outside the submission')
    return SourceTree(kept)


def _includes(text: str) -> list[tuple[int, str]]:
    return [(text.count("\n", 0, m.start()) + 1, (m[1] or m[2]).strip()) for m in _INCLUDE.finditer(text)]
