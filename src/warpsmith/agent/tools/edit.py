"""Edit."""

from pydantic import Field

from warpsmith.agent.base import Answer, say
from warpsmith.agent.context import ToolContext
from warpsmith.agent.edits import Replacement, edit_file
from warpsmith.types.base import Record


class EditArguments(Record):
    """Arguments of Edit."""

    file_path: str = Field(description="The file, absolute or relative to the workspace.")
    old_string: str = Field(description="The text to replace, exactly as it stands in the file.")
    new_string: str = Field(description="The text to put in its place.")
    replace_all: bool = Field(False, description="Replace every place where old_string stands.")


class Edit:
    """Replaces a text in a file."""

    name = "Edit"
    arguments = EditArguments
    description = """\
Replaces a text in a file by another, exactly.

- The file must have been read with Read, and not have changed since.
- old_string must be exactly what stands in the file, with its indentation, without Read's line numbers.
- It must stand there once: give enough lines around it, or set replace_all to change every place.
- An empty old_string makes a new file of new_string."""

    def run(self, arguments: EditArguments, context: ToolContext) -> Answer:
        """Raises ToolError, the file untouched."""
        edit = Replacement(
            old_string=arguments.old_string,
            new_string=arguments.new_string,
            replace_all=arguments.replace_all,
        )
        return say(edit_file(arguments.file_path, (edit,), context))
