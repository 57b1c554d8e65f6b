"""Glob."""

import itertools

from pydantic import Field

from warpsmith.agent.base import Answer, say
from warpsmith.agent.context import ToolContext
from warpsmith.agent.failures import ToolError
from warpsmith.agent.search import Glob as Pattern
from warpsmith.types.base import Record

MAX_FOUND = 100
MAX_LOOKED_AT = 200_000


class GlobArguments(Record):
    """Arguments of Glob."""

    pattern: str = Field(min_length=1, max_length=1000, description="Such as **/*.cu or src/*.{h,cpp}.")
    path: str = Field(".", description="The folder to search, the workspace if not given.")


class Glob:
    """Files by name, newest first."""

    name = "Glob"
    arguments = GlobArguments
    description = f"""\
Finds files of the workspace by name. The latest changed come first, at most {MAX_FOUND}; paths are relative to the
workspace.

- `*` and `?` stay within one folder, `**` crosses folders, `[abc]` is one of these, `{{a,b}}` either.
- The pattern is relative to path: *.py finds files right there, **/*.py those of all folders below too."""

    def run(self, arguments: GlobArguments, context: ToolContext) -> Answer:
        """Raises ToolError for a wrong pattern or folder."""
        workspace = context.workspace
        base = workspace.relative(arguments.path)
        prefix = "" if base == "." else base + "/"
        text = arguments.pattern
        if text.startswith("/"):
            text = text.removeprefix(f"{workspace.root}/{prefix}")
            if text.startswith("/"):
                raise ToolError(f"{text} is outside {workspace.root}/{prefix}: give a pattern relative to it")
        try:
            pattern = Pattern(text)
        except ValueError as error:
            raise ToolError(f"the pattern is wrong: {error}") from error
        entries = list(itertools.islice(workspace.walk(base), MAX_LOOKED_AT + 1))
        if len(entries) > MAX_LOOKED_AT:
            raise ToolError(f"there are more than {MAX_LOOKED_AT} files: give a path further down")
        found = [entry for entry in entries if pattern.match(entry.path.removeprefix(prefix))]
        found.sort(key=lambda entry: (-entry.modified_ns, entry.path))
        if not found:
            hint = "" if "/" in text else f"; **/{text} looks into the folders below too"
            return say(f"No files found{hint}")
        lines = [entry.path.encode("utf-8", "replace").decode() for entry in found[:MAX_FOUND]]
        if len(found) > MAX_FOUND:
            lines.append(f"[the first {MAX_FOUND} of {len(found)}: give a narrower pattern]")
        return say("\n".join(lines))
