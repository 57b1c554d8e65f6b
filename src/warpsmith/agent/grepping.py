"""Runs a search engine in the sandbox: ripgrep where there is one, else `search.py`; both answer the same."""

import base64
import json
import os
import sys
import threading
from collections.abc import Generator, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from warpsmith.agent.context import ToolContext
from warpsmith.agent.failures import ToolError
from warpsmith.agent.search import MAX_DEPTH
from warpsmith.agent.shell import open_pipe
from warpsmith.errors import InfrastructureError
from warpsmith.sandbox import python_paths
from warpsmith.sandbox.process import Tree, run_tree
from warpsmith.types.protocols import SandboxSpec

MAX_SEARCHED_BYTES = 16 << 20
"""Larger files are passed over."""
_SCRIPT = Path(__file__).with_name("search.py")


@dataclass(frozen=True)
class Query:
    """What to search for. `path` is relative to the workspace; `suffixes` are the globs of a type."""

    pattern: str
    path: str
    ignore_case: bool = False
    multiline: bool = False
    before: int = 0
    after: int = 0
    globs: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    max_count: int = 0
    """Matches looked for in a file; 0: all."""
    most_lines: int = 1
    """Lines kept of a file."""


@dataclass(frozen=True)
class Line:
    """A line found, without its end; `matches` is False for one of the context."""

    number: int
    text: str
    matches: bool


@dataclass(frozen=True)
class Found:
    """What was found in a file: its first lines, matches and context, and how many lines match."""

    path: str
    lines: list[Line]
    count: int


def search(query: Query, context: ToolContext) -> Generator[Found, None, None]:
    """What was found, in order, file by file; what is not taken is not searched.

    Raises ToolError for a wrong pattern or glob and when the time is up.
    """
    with context.workspace.place(".") as _:
        root = str(context.workspace.root)
    engine, seen = _engine(query, context.ripgrep)
    out, into = open_pipe()
    try:
        wrapped = ["bash", "--norc", "-c", f'exec "$@" >&{into} {into}>&-', "bash", *engine]
        spec = SandboxSpec(cwd=root, read_only=(root, *seen))
        tree = Tree(
            context.surroundings.sandbox.command(wrapped, spec),
            cwd=root,
            env=context.surroundings.env,
            pass_fds=(into,),
        )
    except BaseException:
        os.close(out)
        raise
    finally:
        os.close(into)
    late = threading.Event()
    with os.fdopen(out, "rb") as messages, tree:
        timer = threading.Timer(context.search_timeout_s, _end, (tree, late))
        timer.start()
        try:
            complete = yield from _files(messages, query.most_lines)
            if late.is_set():
                raise _too_long(context)
            end = tree.wait()
            assert end is not None
            if not complete:
                _refuse(end.exit_code, end.output)
        finally:
            timer.cancel()


def filtered(text: str, pattern: str, context: ToolContext) -> str:
    """The lines of `text` in which `pattern` is found. Raises ToolError as `search` does."""
    fd = os.memfd_create("text")
    try:
        os.write(fd, text.encode("utf-8", "replace"))
        os.lseek(fd, 0, os.SEEK_SET)
        request = json.dumps({"pattern": pattern, "fd": fd})
        spec = SandboxSpec(cwd="/", read_only=python_paths())
        argv = [sys.executable, "-I", "-S", str(_SCRIPT), request]
        end = run_tree(
            context.surroundings.sandbox.command(argv, spec),
            timeout_s=context.search_timeout_s,
            env=context.surroundings.env,
            pass_fds=(fd,),
        )
    finally:
        os.close(fd)
    if end.timed_out:
        raise _too_long(context)
    if end.exit_code:
        _refuse(end.exit_code, end.output)
    return end.output


def _engine(query: Query, ripgrep: str | None) -> tuple[list[str], tuple[str, ...]]:
    """The engine's command, and what it needs to see."""
    if ripgrep is None:
        request = json.dumps({**asdict(query), "max_bytes": MAX_SEARCHED_BYTES})
        return [sys.executable, "-I", "-S", str(_SCRIPT), request], python_paths()
    # with our own table of types, whatever the version knows
    types = [f"--type-add=wanted:{suffix}" for suffix in query.suffixes]
    argv = [
        ripgrep,
        *("--no-config", "--json", "--hidden", "--no-ignore", "--no-messages", "--sort=path"),
        f"--max-depth={MAX_DEPTH}",
        f"--max-filesize={MAX_SEARCHED_BYTES}",
        f"--before-context={query.before}",
        f"--after-context={query.after}",
        *(["--ignore-case"] if query.ignore_case else []),
        *(["--multiline", "--multiline-dotall"] if query.multiline else []),
        *([f"--max-count={query.max_count}"] if query.max_count else []),
        *types,
        *(["--type=wanted"] if types else []),
        *(f"--glob={glob}" for glob in (*query.globs, "!.git")),
        *("-e", query.pattern, "--", query.path),
    ]
    return argv, (ripgrep, os.path.realpath(ripgrep))


def _files(messages: Iterator[bytes], most: int) -> Generator[Found, None, bool]:
    """Returns whether the engine came to its end."""
    file = _File(most)
    for raw in messages:
        try:
            message = json.loads(raw)
        except ValueError:
            # killed while it wrote
            return False
        data = message["data"]
        if message["type"] in ("match", "context"):
            file.add(data, matches=message["type"] == "match")
        elif message["type"] == "end":
            # a binary file has no lines
            if file.count and data["binary_offset"] is None:
                yield Found(_text(data["path"]).removeprefix("./"), file.lines, file.count)
            file = _File(most)
        elif message["type"] == "summary":
            return True
    return False


class _File:
    """Gathers the lines of one file; one that several matches share is told once."""

    def __init__(self, most: int):
        self.lines: list[Line] = []
        self.count = 0
        self._most = most
        self._last = 0
        self._counted = 0

    def add(self, data: dict[str, Any], *, matches: bool) -> None:
        texts = _text(data["lines"]).removesuffix("\n").split("\n")
        first = data["line_number"]
        for number, text in enumerate(texts, first):
            if number > self._last and len(self.lines) < self._most:
                self.lines.append(Line(number, text, matches))
                self._last = number
        if matches:
            last = first + len(texts) - 1
            self.count += max(0, last - max(first - 1, self._counted))
            self._counted = max(self._counted, last)


def _text(value: dict[str, str]) -> str:
    if "text" in value:
        return value["text"]
    return base64.b64decode(value["bytes"]).decode("utf-8", "replace")


def _too_long(context: ToolContext) -> ToolError:
    return ToolError(
        f"the search took more than {context.search_timeout_s:g} s: give a simpler pattern or a narrower path"
    )


def _refuse(exit_code: int | None, output: str) -> None:
    said = " ".join(output.split())[-500:]
    if exit_code == 2:
        raise ToolError(f"the pattern or glob is wrong: {said}")
    raise InfrastructureError(f"the search ended with {exit_code}: {said}")


def _end(tree: Tree, late: threading.Event) -> None:
    late.set()
    tree.kill_tree()
