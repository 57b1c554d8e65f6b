"""The CPU as a platform of verl, which has none: the very same trainer then runs in continuous integration."""

import contextlib
import types
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed
from verl.plugin.platform import PlatformBase, PlatformRegistry

NAME = "cpu"


class _Device(types.ModuleType):
    """`torch.cpu` with what `torch.cuda` has besides: memory counts 0, and the rest does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if hasattr(torch.cpu, name):
            return getattr(torch.cpu, name)
        return _no_bytes if "memory" in name else _nothing

    def mem_get_info(self, *_: Any) -> tuple[int, int]:
        return 0, 0

    def get_device_name(self, *_: Any) -> str:
        return "CPU"


def _no_bytes(*_: Any, **__: Any) -> int:
    return 0


def _nothing(*_: Any, **__: Any) -> None:
    return None


class CpuPlatform(PlatformBase):
    """Ray counts its processes by the resource GPU, of which a run names as many as it wants."""

    device_name = property(lambda self: NAME)
    vendor_name = property(lambda self: NAME)
    device_module = property(lambda self: _DEVICE)

    def is_available(self) -> bool:
        return True

    def current_device(self) -> torch.device:
        return torch.device("cpu")

    def device_count(self) -> int:
        return 1

    def set_device(self, index: int) -> None:
        pass

    def synchronize(self, index: int | None = None) -> None:
        pass

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        pass

    def empty_cache(self) -> None:
        pass

    def get_device_capability(self, index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    @contextlib.contextmanager
    def nvtx_range(self, message: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        pass

    def profiler_stop(self) -> None:
        pass

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None:
        return None


def register_platform() -> None:
    """To be called while verl is being imported: it looks for its platform once."""
    PlatformRegistry.register(platform=NAME)(CpuPlatform)
    start = torch.distributed.init_process_group

    def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> None:
        # verl names one backend for the CPU and one for its device, which here is the CPU again
        start("gloo" if backend == "cpu:gloo,cpu:gloo" else backend, *args, **kwargs)

    torch.distributed.init_process_group = init_process_group


_DEVICE = _Device("warpsmith_cpu_device")
