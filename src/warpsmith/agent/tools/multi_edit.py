"""MultiEdit."""

from pydantic import Field

from warpsmith.agent.base import Answer, say
from warpsmith.agent.context import ToolContext
from warpsmith.agent.edits import Replacement, edit_file
from warpsmith.types.base import Record


class MultiEditArguments(Record):
    """Arguments of MultiEdit."""

    file_path: str = Field(description="The file, absolute or relative to the workspace.")
    edits: tuple[Replacement, ...] = Field(
        min_length=1, max_length=200, description="Replacements, each made in what the one before left."
    )


class MultiEdit:
    """Several replacements in one file, all or none."""

    name = "MultiEdit"
    arguments = MultiEditArguments
    description = """\
Makes several replacements in one file, one after the other, all or none: if one fails, nothing is changed.

- Each edit is as in Edit: old_string must stand exactly once in what the edits before it left, or replace_all is set.
- The file must have been read with Read. An empty old_string in the first edit makes a new file."""

    def run(self, arguments: MultiEditArguments, context: ToolContext) -> Answer:
        """Raises ToolError, the file untouched."""
        return say(edit_file(arguments.file_path, arguments.edits, context))
