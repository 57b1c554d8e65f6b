"""KillBash."""

from pydantic import Field

from warpsmith.agent.base import Answer, say
from warpsmith.agent.context import ToolContext
from warpsmith.types.base import Record


class KillBashArguments(Record):
    """Arguments of KillBash."""

    shell_id: str = Field(description="The id that Bash gave, such as bash_1.")


class KillBash:
    """Ends a background command."""

    name = "KillBash"
    arguments = KillBashArguments
    description = """\
Kills a background command and everything that it started. What it printed can still be read with BashOutput.
An unknown id is answered with the list of all background commands."""

    def run(self, arguments: KillBashArguments, context: ToolContext) -> Answer:
        """Raises ToolError for an unknown id, InfrastructureError where a process does not die."""
        job = context.job(arguments.shell_id)
        if not job.running():
            return say(f"{arguments.shell_id} had ended already")
        job.kill()
        return say(f"{arguments.shell_id} killed: {job.command[:200]}")
