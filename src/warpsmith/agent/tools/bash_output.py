"""BashOutput."""

from pydantic import Field

from warpsmith.agent.base import Answer, say
from warpsmith.agent.context import ToolContext
from warpsmith.agent.grepping import filtered
from warpsmith.types.base import Record


class BashOutputArguments(Record):
    """Arguments of BashOutput."""

    bash_id: str = Field(description="The id that Bash gave, such as bash_1.")
    filter: str | None = Field(
        None, max_length=1000, description="A regular expression: only lines that match; the others are gone."
    )


class BashOutput:
    """What a background command printed since the last look."""

    name = "BashOutput"
    arguments = BashOutputArguments
    description = """\
Returns what a background command has printed since the last call, and whether it still runs.

- It does not wait. To let time pass, run `sleep` in Bash between two calls.
- With filter, only the lines that match are shown, and the others cannot be read later.
- An unknown id is answered with the list of all background commands."""

    def run(self, arguments: BashOutputArguments, context: ToolContext) -> Answer:
        """Raises ToolError for an unknown id or a wrong filter, InfrastructureError where the filter fails."""
        job = context.job(arguments.bash_id)
        # asked before the output is taken, so that "completed" comes with all of it
        running = job.running()
        text = job.take()
        if arguments.filter is not None and text:
            text = filtered(text, arguments.filter, context)
        if running:
            status = "running"
        elif job.killed:
            status = "killed"
        elif job.exit_code is None:
            status = "ended by a signal"
        else:
            status = f"completed, exit code {job.exit_code}"
        return say(f"[{arguments.bash_id}: {status}]\n{text.rstrip(chr(10)) or '(no new output)'}")
