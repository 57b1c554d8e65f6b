"""Write."""

from pydantic import Field

from warpsmith.agent.base import Answer, say
from warpsmith.agent.confine import MissingError
from warpsmith.agent.context import MAX_FILE_BYTES, ToolContext
from warpsmith.types.base import Record


class WriteArguments(Record):
    """Arguments of Write."""

    file_path: str = Field(description="The file, absolute or relative to the workspace.")
    content: str = Field(max_length=MAX_FILE_BYTES // 4, description="The whole content of the file.")


class Write:
    """Makes a file, or replaces one that the model knows."""

    name = "Write"
    arguments = WriteArguments
    description = """\
Writes a file of the workspace, whole; missing folders are made.

- A file that exists must have been read with Read, and not have changed since; else nothing is written.
- To change a part of a file use Edit: it is shorter, and keeps the rest as it is."""

    def run(self, arguments: WriteArguments, context: ToolContext) -> Answer:
        """Raises ToolError where the file must not be written."""
        path, data = arguments.file_path, arguments.content.encode()
        with context.editing:
            try:
                old, real = context.workspace.read(path, MAX_FILE_BYTES)
            except MissingError:
                verb = "made"
                with context.workspace.place(path, make_folders=True) as place:
                    context.require_free(path, place.path)
            else:
                verb = "replaced"
                context.require_known(path, real, old)
            real = context.workspace.write(path, data)
            context.note(real, data)
        return say(f"{path} {verb}: {len(data)} bytes")
