"""`python -I -m warpsmith.synthesis.worker sim|cuda`: one FilterRow on stdout a ComposedTask on stdin, a line each.

torch is imported once for thousands of tasks. What ends or hangs this process is its caller's to see. Before it uses
a GPU it says how on stdout, and waits on stdin to be told to.
"""

import os
import resource
import sys
import tempfile
import warnings
from pathlib import Path

from warpsmith.synthesis.records import ComposedTask
from warpsmith.synthesis.turns import RETIRED
from warpsmith.types import Device

MEMORY_BYTES = 8 * 1024**3
"""Address space on the CPU; a GPU's process maps far more than it uses."""


def main(argv: list[str] | None = None) -> int:
    """Answers until stdin ends."""
    device = Device((argv or sys.argv[1:])[0])
    if device is Device.SIM:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    # stdout is for answers alone: whatever else prints there, C code too, goes where stderr goes
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import torch

    from warpsmith.synthesis.asked_turns import AskedTurns
    from warpsmith.synthesis.checks import check

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    turns = AskedTurns(sys.stdin, answers)
    with tempfile.TemporaryDirectory(prefix="warpsmith-synth-") as folder:
        while (
            line := sys.stdin.readline()
        ):  # not a loop over stdin, which reads ahead: answers to turns come there too
            row = check(ComposedTask.model_validate_json(line), device, Path(folder), turns)
            print(row.model_dump_json(), file=answers, flush=True)
            if device is Device.CUDA and not _gpu_works():
                return RETIRED
    return 0


def _gpu_works() -> bool:
    """A kernel that faulted leaves a context in which every later call fails."""
    import torch

    try:
        torch.ones(1, device="cuda").item()
    except RuntimeError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
