"""`warpsmith synth`: sets of tasks."""

import typer

from warpsmith.cli import synth_make

app = typer.Typer(help="Make and audit sets of tasks.", no_args_is_help=True)
app.command("crawl")(synth_make.crawl)
app.command("compose")(synth_make.compose)
app.command("filter")(synth_make.filter_)
