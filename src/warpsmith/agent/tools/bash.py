"""Bash."""

from pydantic import Field

from warpsmith.agent.base import Answer, say
from warpsmith.agent.context import ToolContext
from warpsmith.agent.shell import MAX_COMMAND, OUTPUT_LIMIT, Ran
from warpsmith.types.base import Record

DEFAULT_TIMEOUT_MS = 120_000
MAX_TIMEOUT_MS = 600_000


class BashArguments(Record):
    """Arguments of Bash."""

    command: str = Field(min_length=1, max_length=MAX_COMMAND, description="The command to run.")
    timeout: int = Field(
        DEFAULT_TIMEOUT_MS,
        ge=1,
        le=MAX_TIMEOUT_MS,
        description=f"Milliseconds until the command is stopped (default {DEFAULT_TIMEOUT_MS}).",
    )
    description: str = Field("", description="What the command does, in 5 to 10 words.")
    run_in_background: bool = Field(
        False, description="Start it and go on: read its output with BashOutput, stop it with KillBash."
    )


class Bash:
    """Runs a command in the episode's shell, or in the background."""

    name = "Bash"
    arguments = BashArguments
    description = f"""\
Runs a bash command and returns what it printed (stdout and stderr together) and its exit code if that is not 0.

- One shell stays for the whole task: the working directory, variables and functions carry over from call to
  call. `exit` ends it, as does a failing command after `set -e`; a new one then starts in the same directory.
- There is no network. Only the workspace and /tmp can be written to; the rest of the system is read-only.
- Nothing can be typed: stdin is empty. Use flags such as -y, and no editors or pagers.
- The timeout is in milliseconds (default {DEFAULT_TIMEOUT_MS}, at most {MAX_TIMEOUT_MS}); then the command and all it
  started are killed.
- Of output beyond {OUTPUT_LIMIT} bytes the middle is left out: filter with grep, head or tail, or redirect to a file.
- With run_in_background the command runs beside the shell, in its directory and with its exported variables, but
  with a /tmp of its own. Do not add `&` then. The answer names an id for BashOutput and KillBash.
- Prefer the tools for files: Read over cat, Edit and Write over sed and echo, Glob over find, Grep over grep."""

    def run(self, arguments: BashArguments, context: ToolContext) -> Answer:
        """Raises InfrastructureError where the sandbox does not start."""
        if arguments.run_in_background:
            job = context.start_job(arguments.command)
            return say(f"started in the background as {job}: read its output with BashOutput")
        ran = context.shell.run(arguments.command, arguments.timeout / 1000)
        notes = _notes(ran, arguments.timeout)
        parts = [ran.output.rstrip("\n"), *notes]
        text = "\n".join(part for part in parts if part) or "(no output)"
        return say(text, is_error=ran.exit_code != 0)


def _notes(ran: Ran, timeout_ms: int) -> list[str]:
    notes = []
    if ran.timed_out:
        notes.append(
            f"[stopped after {timeout_ms} ms; for what takes longer give a larger timeout or run_in_background]"
        )
    elif ran.exit_code is None:
        notes.append("[killed by a signal]")
    elif ran.exit_code:
        notes.append(f"[exit code {ran.exit_code}]")
    if ran.restarted:
        notes.append(
            f"[the shell ended; the next command runs in a new one in {ran.cwd}: variables are lost]"
        )
    if ran.cwd_gone:
        notes.append(f"[the working directory no longer exists; it is now {ran.cwd}]")
    return notes
