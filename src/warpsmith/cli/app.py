"""The `warpsmith` command. Nothing heavy is imported until a command runs."""

import sys
from typing import Annotated

import typer

from warpsmith import __version__
from warpsmith.cli import (
    bench,
    check,
    ci,
    doctor,
    judge,
    leaderboard,
    optimize,
    regrade,
    report,
    synth,
    train,
)
from warpsmith.cli.errors import PASSED, USAGE, on_signals, report_error

# NoSuchOption, MissingParameter and the like; named through typer, which carries its own parser
_ParserError = typer.BadParameter.__base__

app = typer.Typer(
    name="warpsmith",
    help="A PyTorch model in; verified, faster CUDA kernels out.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("optimize")(optimize.optimize)
app.command("judge")(judge.judge)
app.command("bench")(bench.bench)
app.command("check")(check.check)
app.command("regrade")(regrade.regrade)
app.command("doctor")(doctor.doctor)
app.command("report")(report.report)
app.command("ci")(ci.ci)
app.add_typer(leaderboard.app)
app.add_typer(train.app, name="train")
app.add_typer(synth.app, name="synth")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"warpsmith {__version__}")
        raise typer.Exit(PASSED)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """A PyTorch model in; verified, faster CUDA kernels out."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def main() -> None:
    """Runs the command line and exits with its status."""
    on_signals()
    try:
        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt as error:  # before a command had begun, or after it had ended
        sys.exit(report_error(error))


def run(argv: list[str]) -> int:
    """Runs one command line; returns the exit status. Wrong options are one line and status 2."""
    try:
        status = app(args=argv, prog_name="warpsmith", standalone_mode=False)
    except _ParserError as error:
        message = " ".join(error.format_message().split())
        print(f"warpsmith: {message}; see warpsmith --help", file=sys.stderr)
        return USAGE
    return status if isinstance(status, int) else PASSED
