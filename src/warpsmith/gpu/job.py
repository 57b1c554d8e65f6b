"""A job's process: `python -I -m warpsmith.gpu.job PACKAGE.MODULE:FUNCTION FOLDER`.

Exit code 0: the function returned. 1: it raised, and the traceback is on stderr. 2: there is no such function.
"""

import importlib
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

USAGE = 2


def resolve(entry: str) -> Callable[[Path], object]:
    """The function that `package.module:function` names. Raises ValueError, ImportError or AttributeError."""
    module, colon, function = entry.partition(":")
    if not (module and colon and function):
        raise ValueError(f"{entry!r} is not of the form package.module:function")
    return getattr(importlib.import_module(module), function)


def main(argv: list[str]) -> int:
    """Runs the job and returns the exit code."""
    if len(argv) != 2:
        print("usage: python -I -m warpsmith.gpu.job PACKAGE.MODULE:FUNCTION FOLDER", file=sys.stderr)
        return USAGE
    entry, folder = argv
    try:
        function = resolve(entry)
    except (ValueError, ImportError, AttributeError):
        traceback.print_exc()
        return USAGE
    function(Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
