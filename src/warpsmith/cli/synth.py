"""`warpsmith synth`: sets of tasks."""

import typer

from warpsmith.cli import synth_audit

app = typer.Typer(help="Make and audit sets of tasks.", no_args_is_help=True)
app.command("audit")(synth_audit.audit)
