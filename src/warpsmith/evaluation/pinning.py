"""What this process runs on and with, for a run's manifest. Imports no torch."""

import os
import subprocess
from pathlib import Path

import warpsmith
from warpsmith.evaluation.regrading import judge_fingerprint
from warpsmith.gpu.clocks import gpu_pins
from warpsmith.gpu.devices import list_gpus
from warpsmith.gpu.local import visible_gpus
from warpsmith.judge.machine import torch_build
from warpsmith.types import Device, Pins

GIT_TIMEOUT_S = 60.0


def pins(device: Device) -> Pins:
    """The code, PyTorch and, on a GPU, the devices that this process may use.

    Raises MissingExtraError where PyTorch is not installed.
    """
    build = torch_build()
    on_gpu = device is Device.CUDA
    gpus = visible_gpus(list_gpus(), os.environ.get("CUDA_VISIBLE_DEVICES")) if on_gpu else ()
    return Pins(
        source=judge_fingerprint(),
        commit=commit_of(Path(warpsmith.__file__).parent),
        torch=str(build["__version__"]),
        cuda=str(build["cuda"]) if build.get("cuda") else None,
        driver=gpus[0].driver if gpus else None,
        gpus=gpu_pins([gpu.uuid for gpu in gpus]),
    )


def commit_of(folder: Path) -> str | None:
    """The commit that `folder` is checked out at, `-dirty` behind it where files there differ; None: no checkout."""
    found = _git(folder, "rev-parse", "HEAD")
    if not found or _git(folder, "ls-files", "--", ".") == "":
        # a folder inside somebody else's checkout, such as an installation in a virtual environment
        return None
    return found + ("-dirty" if _git(folder, "status", "--porcelain", "--", ".") else "")


def _git(folder: Path, *arguments: str) -> str | None:
    """What git says; None where it cannot."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=GIT_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
