"""The one place where errors become exit statuses and lines on stderr."""

import functools
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import ParamSpec

import typer

from warpsmith.errors import (
    CheatingError,
    InfrastructureError,
    SubmissionError,
    SubmissionUnreadableError,
    TaskError,
    TaskUnreadableError,
    UsageError,
    WarpsmithError,
)

PASSED = 0
OTHER_VERDICT = 1
USAGE = 2
INFRASTRUCTURE = 3
INTERRUPTED = 130


class Ended(KeyboardInterrupt):
    """SIGTERM or SIGHUP came: like Ctrl-C, and the exit status names the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number


_STATUS_OF: tuple[tuple[type[BaseException], int], ...] = (
    (UsageError, USAGE),
    (TaskUnreadableError, USAGE),
    (SubmissionUnreadableError, USAGE),
    (TaskError, OTHER_VERDICT),
    (SubmissionError, OTHER_VERDICT),
    (CheatingError, OTHER_VERDICT),
    (InfrastructureError, INFRASTRUCTURE),
    (OSError, INFRASTRUCTURE),
    (KeyboardInterrupt, INTERRUPTED),
)
"""First match wins; anything else is a fault of ours and counts as infrastructure."""

P = ParamSpec("P")


def guarded(command: Callable[P, int]) -> Callable[P, None]:
    """Wraps a command that returns its exit status: its errors become one line and a status."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            status = command(*args, **kwargs)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  this is the outermost boundary
            status = report_error(error)
            if kwargs.get("as_json") and status in (OTHER_VERDICT, INFRASTRUCTURE):
                print(json.dumps(_no_verdict(error)))
        raise typer.Exit(status)

    return run


def report_error(error: BaseException) -> int:
    """Prints one line for `error` on stderr (the traceback with --debug) and returns the exit status."""
    if isinstance(error, BrokenPipeError):
        # whoever read stdout has gone; writing to it again at exit would raise once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OTHER_VERDICT
    if "--debug" in sys.argv:
        traceback.print_exception(error, file=sys.stderr)
    print(f"warpsmith: {one_line(error)}", file=sys.stderr)
    return exit_status(error)


def on_signals() -> None:
    """SIGTERM and SIGHUP end the process as Ctrl-C does: what runs is killed, what was made for a while removed."""

    def end(number: int, frame: object) -> None:
        raise Ended(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        # nohup and its like have it ignored, and mean it
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, end)


def exit_status(error: BaseException) -> int:
    """The exit status that an error of this class ends the process with."""
    if isinstance(error, Ended):
        return error.status
    return next((status for kind, status in _STATUS_OF if isinstance(error, kind)), INFRASTRUCTURE)


def one_line(error: BaseException) -> str:
    """What a person reads: the message, and after a semicolon what to do."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted; what was done is kept, and the same command goes on from there"
    if isinstance(error, WarpsmithError):
        text, hint = str(error), error.hint
    elif isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        text, hint = (
            f"{where}{error.strerror or type(error).__name__}",
            "check the path, space and permissions",
        )
    else:
        text = f"unexpected {type(error).__name__}: {error}"
        hint = "run again with --debug for the traceback and report it"
    return " ".join((f"{text}; {hint}" if hint else text).split())


def _no_verdict(error: BaseException) -> dict[str, object]:
    """The JSON answer where an error came before any verdict: the keys of every answer."""
    from warpsmith.judge.verdict import status_of
    from warpsmith.types import SCHEMA_VERSION, Status

    status = status_of(error) if isinstance(error, WarpsmithError) else Status.INFRASTRUCTURE
    unknown = dict.fromkeys(("reward", "device", "speedup", "error"))
    return {"schema_version": SCHEMA_VERSION, "status": status.value, **unknown, "detail": one_line(error)}
