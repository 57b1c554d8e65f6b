"""`python -I -m warpsmith.sim.shrink_worker FILE…`: one JSON line (`TaskSize`) a task file, in order."""

import argparse
import os
import signal
import sys
from pathlib import Path

from warpsmith.sim.shrink import size_line


def main(argv: list[str] | None = None) -> int:
    """Measures each file; ends by SIGALRM after `--timeout` seconds (0: never)."""
    parser = argparse.ArgumentParser(prog="warpsmith.sim.shrink_worker")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--timeout", type=float, default=0.0)
    parser.add_argument("--max-elements", type=int, default=None)
    options = parser.parse_args(argv)
    signal.setitimer(signal.ITIMER_REAL, options.timeout)
    # stdout is for answers alone: whatever else prints there, C code too, goes where stderr goes
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for path in options.files:
        print(size_line(path, options.max_elements), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
