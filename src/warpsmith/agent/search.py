"""Searches text in files as ripgrep does, and prints what `rg --json` prints of it. Started as a script.

`search.py REQUEST`, a JSON object: `pattern`, `path`, `ignore_case`, `multiline`, `before`, `after`, `globs`,
`suffixes` (globs of a type), `max_count` (lines that match, of a file; 0: all), `max_bytes` (larger files are
passed over); or `pattern` and `fd`: prints the matching lines of that descriptor. Exit status 2: the pattern is
wrong, told on stderr.

Only the standard library: the script is started with `-I -S` inside a sandbox, since a pattern may take for
ever and the files may change under way. `Glob` is imported by the rest of the package too.
"""

import base64
import itertools
import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence

_MAX_ALTERNATIVES = 256
_MAX_BRACES = 8
MAX_DEPTH = 200
_SKIPPED = ".git"
_BEYOND = re.compile(r"(?<!\\)(?:\\\\)*(?:\\[1-9]|\(\?(?:[=!>]|<[=!]|P[=>]|\())")


class Glob:
    """A pattern of `*`, `?`, `[a-z]`, `{a,b}` and `**` between slashes. Matching takes polynomial time.

    Raises ValueError where the pattern is wrong.
    """

    def __init__(self, pattern: str):
        self._forms = [
            [None if part == "**" else _tokens(part) for part in form.split("/") if part]
            for form in _alternatives(pattern)
        ]

    def match(self, path: str) -> bool:
        """Whether the whole of `path`, a relative path with slashes, fits."""
        names = path.split("/")
        return any(_fits(form, names) for form in self._forms)


class Selection:
    """Which files `rg -g GLOB…` with types searches: the last glob that fits decides, and goes before types."""

    def __init__(self, globs: Sequence[str], suffixes: Sequence[str]):
        self._globs = [(text.startswith("!"), text.endswith("/"), _anchored(text)) for text in globs]
        self._only = any(not negative for negative, _, _ in self._globs)
        self._suffixes = [Glob(text) for text in suffixes]

    def folder(self, path: str) -> bool:
        """Whether to go into a folder."""
        fitting = [negative for negative, _, glob in self._globs if glob.match(path)]
        return not (fitting and fitting[-1]) and os.path.basename(path) != _SKIPPED

    def file(self, path: str) -> bool:
        """Whether to search a file."""
        name = os.path.basename(path)
        fitting = [negative for negative, folder, glob in self._globs if not folder and glob.match(path)]
        if fitting or self._only:
            return name != _SKIPPED and bool(fitting) and not fitting[-1]
        return name != _SKIPPED and (not self._suffixes or any(glob.match(name) for glob in self._suffixes))


def compiled(pattern: str, *, ignore_case: bool, multiline: bool) -> re.Pattern[str]:
    """The pattern; what ripgrep does not know is refused here too. Raises re.error."""
    if _BEYOND.search(pattern):
        raise re.error("look-around and backreferences are not supported")
    flags = re.MULTILINE | (re.IGNORECASE if ignore_case else 0) | (re.DOTALL if multiline else 0)
    return re.compile(pattern, flags)


def main() -> int:
    """The script; its exit status."""
    request = json.loads(sys.argv[1])
    try:
        pattern = compiled(
            request["pattern"],
            ignore_case=request.get("ignore_case", False),
            multiline=request.get("multiline", False),
        )
        if "fd" in request:
            with open(request["fd"], encoding="utf-8") as file:
                sys.stdout.writelines(line for line in file if pattern.search(line.rstrip("\n")))
            return 0
        selection = Selection(request["globs"], request["suffixes"])
    except (re.error, ValueError) as error:
        print(f"regex or glob error: {error}", file=sys.stderr)
        return 2
    found = False
    for path in _chosen(request["path"], selection):
        found |= _search(path, pattern, request)
    _print({"type": "summary", "data": {}})
    return 0 if found else 1


def _alternatives(pattern: str, depth: int = 0) -> list[str]:
    """The pattern without braces: every combination of what stands in them."""
    if depth > _MAX_BRACES:
        raise ValueError(f"braces more than {_MAX_BRACES} deep")
    forms = [""]
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\" and at + 1 < len(pattern):
            forms = [form + pattern[at : at + 2] for form in forms]
            at += 2
        elif char == "{":
            end, options = _braces(pattern, at)
            inner = [form for option in options for form in _alternatives(option, depth + 1)]
            if len(forms) * len(inner) > _MAX_ALTERNATIVES:
                raise ValueError(f"more than {_MAX_ALTERNATIVES} alternatives in braces")
            forms = [a + b for a, b in itertools.product(forms, inner)]
            at = end
        else:
            forms = [form + char for form in forms]
            at += 1
    return forms


def _braces(pattern: str, start: int) -> tuple[int, list[str]]:
    """Where the brace opened at `start` has closed, and the texts between its commas."""
    depth, options, begin, at = 0, [], start + 1, start
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
        elif char == "{":
            depth += 1
        elif char == "," and depth == 1:
            options.append(pattern[begin:at])
            begin = at + 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                return at + 1, [*options, pattern[begin:at]]
        at += 1
    raise ValueError("a { is not closed")


def _tokens(part: str) -> list[re.Pattern[str] | None]:
    """One-character matchers; None stands for `*`."""
    tokens: list[re.Pattern[str] | None] = []
    at = 0
    while at < len(part):
        char = part[at]
        if char == "*":
            tokens.append(None)
        elif char == "?":
            tokens.append(re.compile(".", re.DOTALL))
        elif char == "[":
            # a bracket right behind the opening one stands for itself
            end = part.find("]", at + (3 if part[at + 1 : at + 2] in ("!", "^") else 2))
            if end < 0:
                raise ValueError("a [ is not closed")
            inside = part[at + 1 : end]
            negative = inside[0] in "!^"
            text = _ranges(inside[1:] if negative else inside)
            tokens.append(re.compile(f"[{'^' if negative else ''}{text}]"))
            at = end
        else:
            if char == "\\" and at + 1 < len(part):
                at += 1
            tokens.append(re.compile(re.escape(part[at])))
        at += 1
    return tokens


def _ranges(inside: str) -> str:
    """What stands between brackets, as a regular expression has it."""
    text, at = "", 0
    while at < len(inside):
        low = inside[at]
        if inside[at + 1 : at + 2] == "-" and at + 2 < len(inside):
            high = inside[at + 2]
            if high < low:
                raise ValueError(f"the range {low}-{high} is empty")
            text += f"{re.escape(low)}-{re.escape(high)}"
            at += 3
        else:
            text += re.escape(low)
            at += 1
    return text


def _name_fits(tokens: Sequence[re.Pattern[str] | None], name: str) -> bool:
    at = token = 0
    star, mark = -1, 0
    while at < len(name):
        if token < len(tokens) and tokens[token] is None:
            star, mark = token, at
            token += 1
        elif token < len(tokens) and tokens[token].fullmatch(name[at]):  # type: ignore[union-attr]
            at += 1
            token += 1
        elif star >= 0:
            mark += 1
            at, token = mark, star + 1
        else:
            return False
    return all(rest is None for rest in tokens[token:])


def _fits(form: Sequence[list[re.Pattern[str] | None] | None], names: Sequence[str]) -> bool:
    """Walks the parts of the pattern with the set of how many names they may have used up."""
    used = {0}
    for index, part in enumerate(form):
        if not used:
            return False
        if part is None:
            # at the end it stands for something, before it for nothing too
            least = min(used) + (index == len(form) - 1 and index > 0)
            used = set(range(least, len(names) + 1))
        else:
            used = {n + 1 for n in used if n < len(names) and _name_fits(part, names[n])}
    return len(names) in used


def _anchored(text: str) -> Glob:
    text = text.removeprefix("!")
    inner = text.rstrip("/")
    return Glob(inner.lstrip("/") if "/" in inner else f"**/{inner}")


def _chosen(path: str, selection: Selection, depth: int = 0) -> Iterator[str]:
    if not os.path.isdir(path):
        # what is named is searched whatever the globs say
        yield path
        return
    prefix = "" if path == "." else path + "/"
    try:
        entries = sorted(os.scandir(path), key=lambda entry: os.fsencode(entry.name))
    except OSError:
        return
    for entry in entries:
        name = prefix + entry.name
        if entry.is_dir(follow_symlinks=False):
            if depth + 1 < MAX_DEPTH and selection.folder(name):
                yield from _chosen(name, selection, depth + 1)
        elif entry.is_file(follow_symlinks=False) and selection.file(name):
            yield name


def _search(path: str, pattern: re.Pattern[str], request: dict[str, object]) -> bool:
    limit = int(request["max_bytes"])  # type: ignore[call-overload]
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode) or info.st_size > limit:
                return False
            data = file.read(limit + 1)
    except OSError:
        return False
    if b"\0" in data:
        return False
    text = data.decode("utf-8", "surrogateescape")
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    most = int(request["max_count"]) or len(lines)  # type: ignore[call-overload]
    if request["multiline"]:
        matching = _spans(text, lines, pattern)
    else:
        matching = (n for n, line in enumerate(lines) if pattern.search(line))
    hits = list(itertools.islice(matching, most))
    _tell(path, lines, hits, int(request["before"]), int(request["after"]))  # type: ignore[call-overload]
    return bool(hits)


def _spans(text: str, lines: Sequence[str], pattern: re.Pattern[str]) -> Iterator[int]:
    """The lines that matches touch, each once; a match of several lines gives all of them."""
    line, start, told = 0, 0, -1
    for match in pattern.finditer(text):
        while line < len(lines) and start + len(lines[line]) < match.start():
            start += len(lines[line]) + 1
            line += 1
        # an end right behind a line break belongs to the line before it
        stop = max(match.end() - 1, match.start())
        last = min(line + text.count("\n", match.start(), stop), len(lines) - 1)
        yield from range(max(line, told + 1), last + 1)
        told = max(told, last)


def _tell(path: str, lines: Sequence[str], hits: Sequence[int], before: int, after: int) -> None:
    matching = set(hits)
    shown = {n for hit in hits for n in range(max(0, hit - before), min(len(lines), hit + after + 1))}
    for n in sorted(shown):
        kind = "match" if n in matching else "context"
        data = {"path": _value(path), "lines": _value(lines[n] + "\n"), "line_number": n + 1}
        _print({"type": kind, "data": data})
    _print({"type": "end", "data": {"path": _value(path), "binary_offset": None}})


def _value(text: str) -> dict[str, str]:
    raw = text.encode("utf-8", "surrogateescape")
    try:
        return {"text": raw.decode("utf-8")}
    except UnicodeDecodeError:
        return {"bytes": base64.b64encode(raw).decode()}


def _print(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")


if __name__ == "__main__":
    sys.exit(main())
