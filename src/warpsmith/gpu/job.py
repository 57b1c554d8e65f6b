"""A job's process: `python -I -m warpsmith.gpu.job PACKAGE.MODULE:FUNCTION FOLDER [--standby]`.

The function is called with the folder. It may return a second function, which is called in turn: what comes first
needs no device (loading libraries, starting helpers). With `--standby` the process waits between the two until a
file `go.json` appears in the folder, holding variables for its environment, the leased GPU's among them.

Exit code 0: all returned. 1: one raised, and the traceback is on stderr. 2: there is no such function.
"""

import importlib
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from warpsmith.gpu.go import STANDBY, await_go

USAGE = 2


def resolve(entry: str) -> Callable[[Path], object]:
    """The function that `package.module:function` names. Raises ValueError, ImportError or AttributeError."""
    module, colon, function = entry.partition(":")
    if not (module and colon and function):
        raise ValueError(f"{entry!r} is not of the form package.module:function")
    return getattr(importlib.import_module(module), function)


def main(argv: list[str]) -> int:
    """Runs the job and returns the exit code."""
    if len(argv) not in (2, 3) or argv[2:] not in ([], [STANDBY]):
        print(
            "usage: python -I -m warpsmith.gpu.job PACKAGE.MODULE:FUNCTION FOLDER [--standby]",
            file=sys.stderr,
        )
        return USAGE
    entry, folder = argv[0], Path(argv[1])
    try:
        function = resolve(entry)
    except (ValueError, ImportError, AttributeError):
        traceback.print_exc()
        return USAGE
    second = function(folder)
    if STANDBY in argv:
        await_go(folder)
    if callable(second):
        second()
    return 0


def run() -> None:
    """Runs the job that the command line names and ends this process.

    At once: its records are files that were closed, and tearing down PyTorch takes a fifth of a second.
    """
    try:
        code = main(sys.argv[1:])
    except Exception:  # noqa: BLE001 - what the job raised is told by its exit code
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    run()
