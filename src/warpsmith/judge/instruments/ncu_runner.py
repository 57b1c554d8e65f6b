"""The process that ncu watches: `python -I -m warpsmith.judge.instruments.ncu_runner CANDIDATE SHARE SEED DEVICE`.

It loads a built submission, the weights and one set of inputs, warms up, calls forward a few times inside a profiler
range, and exits: only then does ncu write its table.
"""

import sys
from contextlib import nullcontext
from pathlib import Path

import torch

from warpsmith.judge.runner import inside, keyrings
from warpsmith.types import Device

WARM_CALLS = 2
CALLS = 2
INIT, STATE, INPUTS = "init.pt", "state.pt", "inputs.pt"
"""Names in SHARE."""


def main() -> int:
    """Runs what the command line names."""
    keyrings.forget()
    candidate, share, seed, device = (
        Path(sys.argv[1]),
        Path(sys.argv[2]),
        int(sys.argv[3]),
        Device(sys.argv[4]),
    )
    on_gpu = device is Device.CUDA
    if not on_gpu:
        from warpsmith.sim import preamble

        preamble.install()
    place = "cuda" if on_gpu else "cpu"
    model = inside.Runner(None, place)
    model.take_device({"visible": None}, [])
    init, state = str(share / INIT), str(share / STATE)
    model.load({"kind": "submission", "folder": str(candidate), "seed": seed, "init": init, "state": state})
    model.prepare({})
    inputs = torch.load(share / INPUTS, weights_only=False, map_location=place)
    with torch.no_grad():
        for _ in range(WARM_CALLS):
            model.forward(*inputs)
        if on_gpu:
            torch.cuda.synchronize()
        with torch.cuda.profiler.profile() if on_gpu else nullcontext():
            for _ in range(CALLS):
                model.forward(*inputs)
            if on_gpu:
                torch.cuda.synchronize()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
