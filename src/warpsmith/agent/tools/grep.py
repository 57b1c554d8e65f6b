"""Grep."""

import re
from collections.abc import Iterator
from contextlib import closing
from enum import StrEnum

from pydantic import ConfigDict, Field

from warpsmith.agent.base import Answer, say
from warpsmith.agent.context import ToolContext
from warpsmith.agent.failures import ToolError
from warpsmith.agent.grepping import Found, Query, search
from warpsmith.agent.listing import cut
from warpsmith.types.base import Record

DEFAULT_HEAD = 250
MAX_CHARS = 30_000
MAX_LINE = 500
_LINE_BREAK = re.compile(r"(?<!\\)(?:\\\\)*\\n|\n")

TYPES: dict[str, tuple[str, ...]] = {
    "c": ("*.[chH]", "*.[chH].in"),
    "cmake": ("*.cmake", "CMakeLists.txt"),
    "cpp": ("*.[ChH]", "*.cc", "*.[ch]pp", "*.[ch]xx", "*.hh", "*.inl", "*.[ch]++"),
    "css": ("*.css", "*.scss"),
    "cuda": ("*.cu", "*.cuh"),
    "go": ("*.go",),
    "html": ("*.htm", "*.html"),
    "java": ("*.java",),
    "js": ("*.js", "*.jsx", "*.mjs", "*.cjs"),
    "json": ("*.json", "*.jsonl"),
    "log": ("*.log",),
    "make": ("[Mm]akefile", "GNUmakefile", "*.mk", "*.mak"),
    "md": ("*.md", "*.markdown"),
    "py": ("*.py", "*.pyi"),
    "rust": ("*.rs",),
    "sh": ("*.sh", "*.bash"),
    "toml": ("*.toml",),
    "ts": ("*.ts", "*.tsx"),
    "txt": ("*.txt",),
    "xml": ("*.xml",),
    "yaml": ("*.yaml", "*.yml"),
}
"""Globs of a type, for both engines."""


class OutputMode(StrEnum):
    """What Grep prints of what it found."""

    CONTENT = "content"
    FILES = "files_with_matches"
    COUNT = "count"


class GrepArguments(Record):
    """Arguments of Grep."""

    model_config = ConfigDict(populate_by_name=True)

    pattern: str = Field(min_length=1, max_length=5000, description="A regular expression, as ripgrep's.")
    path: str = Field(".", description="The file or folder to search, the workspace if not given.")
    glob: str | None = Field(
        None, max_length=1000, description="Only such files: *.cu, src/**/*.{h,cpp}, !*.log."
    )
    output_mode: OutputMode = Field(
        OutputMode.FILES, description="Lines, paths of files, or counts of lines."
    )
    before: int = Field(
        0, alias="-B", ge=0, le=1000, description="Lines to show before each match (content)."
    )
    after: int = Field(0, alias="-A", ge=0, le=1000, description="Lines to show after each match (content).")
    around: int = Field(0, alias="-C", ge=0, le=1000, description="Lines to show on both sides (content).")
    numbers: bool = Field(True, alias="-n", description="Show line numbers (content).")
    ignore_case: bool = Field(False, alias="-i", description="Capitals do not matter.")
    type: str | None = Field(None, description=f"Only files of a type: {', '.join(TYPES)}.")
    head_limit: int = Field(
        DEFAULT_HEAD, ge=0, le=10_000, description=f"Only the first N lines or files (0: {DEFAULT_HEAD})."
    )
    multiline: bool = Field(False, description="A match may span lines: . and \\s match line breaks too.")


class Grep:
    """Text in files."""

    name = "Grep"
    arguments = GrepArguments
    description = f"""\
Searches the files of the workspace for a regular expression, with ripgrep's rules.

- output_mode: "files_with_matches" (default; the latest changed first), "content" (path:line:text, with -A, -B, -C
  for lines around and -n), "count" (path:matching lines).
- Escape what is meant literally: `interface\\{{\\}}`, `foo\\(`. There are no look-arounds and no backreferences.
- A match stays within a line unless multiline is set.
- Hidden and ignored files are searched too; .git, binary files and files beyond 16 MiB are not.
- Without head_limit the first {DEFAULT_HEAD} lines or files come."""

    def run(self, arguments: GrepArguments, context: ToolContext) -> Answer:
        """Raises ToolError for a wrong pattern, glob, type or path, InfrastructureError where no search starts."""
        if not arguments.multiline and _LINE_BREAK.search(arguments.pattern):
            raise ToolError("the pattern has a line break: set multiline")
        if arguments.type is not None and arguments.type not in TYPES:
            raise ToolError(f"unknown type {arguments.type!r}: use glob, or one of {', '.join(TYPES)}")
        mode = arguments.output_mode
        content = mode is OutputMode.CONTENT
        head = arguments.head_limit or DEFAULT_HEAD
        # one more than is shown, to know whether there is more
        limits = {OutputMode.CONTENT: head + 1, OutputMode.FILES: 1, OutputMode.COUNT: 0}
        query = Query(
            pattern=arguments.pattern,
            path=context.workspace.relative(arguments.path),
            ignore_case=arguments.ignore_case,
            multiline=arguments.multiline,
            before=max(arguments.before, arguments.around) if content else 0,
            after=max(arguments.after, arguments.around) if content else 0,
            globs=(arguments.glob,) if arguments.glob else (),
            suffixes=TYPES[arguments.type] if arguments.type else (),
            max_count=limits[mode],
            most_lines=head + 1,
        )
        with closing(search(query, context)) as found:
            if content:
                lines = _content(found, arguments.numbers, context=bool(query.before or query.after))
            elif mode is OutputMode.COUNT:
                lines = (f"{_shown(file.path)}:{file.count}" for file in found)
            else:
                lines = iter(_by_time([file.path for file in found], context))
            return say(_first(lines, head))


def _first(lines: Iterator[str], head: int) -> str:
    """The first lines, as many as fit into an answer; a last one says where there are more."""
    shown: list[str] = []
    size = 0
    for line in lines:
        if len(shown) >= head or size + len(line) > MAX_CHARS:
            shown.append(f"[cut after {len(shown)}: narrow the pattern, path or glob, or raise head_limit]")
            break
        shown.append(line)
        size += len(line) + 1
    return "\n".join(shown) or "No matches found"


def _content(files: Iterator[Found], numbers: bool, *, context: bool) -> Iterator[str]:
    first = True
    for file in files:
        last = None
        path = _shown(file.path)
        for line in file.lines:
            # as grep does, between what does not stand side by side
            if context and not first and line.number - 1 != last:
                yield "--"
            mark = ":" if line.matches else "-"
            number = f"{line.number}{mark}" if numbers else ""
            yield f"{path}{mark}{number}{cut(line.text, MAX_LINE)}"
            last, first = line.number, False


def _by_time(paths: list[str], context: ToolContext) -> list[str]:
    def key(path: str) -> tuple[int, str]:
        try:
            with context.workspace.open(path) as (_, info, _):
                return -info.st_mtime_ns, path
        except ToolError:
            return 0, path

    return [_shown(path) for path in sorted(paths, key=key)]


def _shown(path: str) -> str:
    return path.encode("utf-8", "replace").decode()
