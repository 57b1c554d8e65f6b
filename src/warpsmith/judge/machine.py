"""What this process runs on, told without loading torch."""

import importlib.util
import os
import runpy
from pathlib import Path
from platform import python_version

from warpsmith.errors import InfrastructureError, MissingExtraError
from warpsmith.gpu.devices import GpuInfo, list_gpus
from warpsmith.types import Device, Machine


def leased_gpu() -> GpuInfo:
    """The GPU that this process was given, by CUDA_VISIBLE_DEVICES (an index or a UUID), else the first."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0]
    gpus = list_gpus()
    for gpu in gpus:
        if visible in (gpu.uuid, str(gpu.index)):
            return gpu
    if not gpus:
        raise InfrastructureError("no GPU is visible to the judge", hint="run `warpsmith doctor`")
    return gpus[0]


def describe_machine(device: Device, gpu: GpuInfo | None, isolation: str) -> Machine:
    """On what this process judges. Raises MissingExtraError where torch is not installed."""
    build = torch_build()
    return Machine(
        device=device,
        gpu=gpu.name if gpu else None,
        gpu_uuid=gpu.uuid if gpu else None,
        driver=gpu.driver if gpu else None,
        torch=str(build["__version__"]),
        cuda=str(build["cuda"]) if build.get("cuda") else None,
        python=python_version(),
        isolation=isolation,
    )


def torch_build() -> dict[str, object]:
    """`__version__` (such as `2.11.0+cu130`) and `cuda` of the installed PyTorch; importing it would take seconds.

    Raises MissingExtraError where it is not installed.
    """
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        raise MissingExtraError(
            "PyTorch is not installed", hint="install the extra with: pip install 'warpsmith[judge]'"
        )
    return runpy.run_path(str(Path(found.origin).with_name("version.py")))
