"""`warpsmith synth`: sets of tasks."""

import typer

from warpsmith.cli import synth_audit, synth_make, synth_write

app = typer.Typer(help="Make and audit sets of tasks.", no_args_is_help=True)
app.command("crawl")(synth_make.crawl)
app.command("compose")(synth_make.compose)
app.command("from")(synth_write.from_folder)
app.command("filter")(synth_make.filter_)
app.command("write")(synth_write.write)
app.command("audit")(synth_audit.audit)
