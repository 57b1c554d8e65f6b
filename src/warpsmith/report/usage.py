"""`use.py`: the lines of Python that put a result to use."""

USE_FILE = "use.py"

USE = '''\
"""Puts the verified kernels in the place of the model.

    from use import load
    fast = load(model, *init_inputs)

`model` is the PyTorch module whose parameters are taken over, `init_inputs` are the arguments that it was
constructed with. Inference only, for the shapes and dtypes that verdict.json was reached on.
`python use.py` builds the kernels and compares them with model.py on fresh inputs.
"""

import importlib
import sys
from pathlib import Path

import torch

from warpsmith.compile import LocalCompiler
from warpsmith.tasks import load_task
from warpsmith.types import CompileStatus, Device, Target
from warpsmith.types.arguments import constructor_arguments
from warpsmith.workspace import load_submission

HERE = Path(__file__).resolve().parent


def load(model: torch.nn.Module, *init_inputs: object, **named: object) -> torch.nn.Module:
    """Builds the solution for this machine and returns its ModelNew with the parameters of `model`."""
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        major, minor = torch.cuda.get_device_capability()
        target = Target(device=Device.CUDA, arch=f"sm_{major}{minor}")
    else:
        from warpsmith.sim import preamble

        preamble.install()
        target = Target(device=Device.SIM)
    built = LocalCompiler().build(load_submission(HERE / "solution"), target, load_task(HERE / "model.py"))
    if built.status is not CompileStatus.OK:
        raise RuntimeError(built.log)
    sys.path[:0] = [str(built.build_dir), str(HERE / "solution")]
    device = "cuda" if on_gpu else "cpu"
    fast = importlib.import_module("model_new").ModelNew(*init_inputs, **named).eval().to(device)
    fast.load_state_dict(model.state_dict())
    if callable(getattr(fast, "prepare", None)):
        with torch.no_grad():
            fast.prepare()
    return fast


def main() -> None:
    """Compares the solution with model.py on fresh inputs."""
    sys.path.insert(0, str(HERE))
    reference = importlib.import_module("model")
    args, named = constructor_arguments(reference.get_init_inputs(), reference.Model)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = reference.Model(*args, **named).eval().to(device)
    fast = load(model, *args, **named)
    inputs = [x.to(device) if isinstance(x, torch.Tensor) else x for x in reference.get_inputs()]
    with torch.no_grad():
        wanted, got = model(*inputs), fast(*inputs)
    pairs = [(wanted, got)] if isinstance(wanted, torch.Tensor) else list(zip(wanted, got, strict=True))
    for number, (a, b) in enumerate(pairs):
        difference = a.double() - b.double()
        relative = difference.norm().item() / max(a.double().norm().item(), 1e-300)
        worst = difference.abs().max().item()
        print(f"output {number}: relative error {relative:.2e}, largest difference {worst:.2e}")


if __name__ == "__main__":
    main()
'''
"""Copied as it is. The kernels are built for the machine that it runs on: a GPU, or else the simulator."""
