"""A `torch.cuda` that describes one H200 and whose streams, events and memory calls do nothing."""

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from warpsmith.errors import SubmissionUnsupportedError

_MEMORY_BYTES = 141 << 30
_CAPABILITY = (9, 0)
_NAME = "NVIDIA H200"


class Stream:
    """The one stream: all work on it has finished by the time that a call returns."""

    cuda_stream = 0
    stream_id = 0
    device_index = 0
    priority = 0

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True

    def wait_stream(self, _stream: "Stream") -> None:
        pass

    def wait_event(self, _event: "Event") -> None:
        pass

    def record_event(self, event: "Event | None" = None) -> "Event":
        return event or Event()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_exc: object) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream)

    def __hash__(self) -> int:
        return 0


class Event:
    """An event that is always complete; times between events are 0, as the simulator measures none."""

    cuda_event = 0

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        pass

    def record(self, _stream: Stream | None = None) -> None:
        pass

    def wait(self, _stream: Stream | None = None) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True

    def elapsed_time(self, _end: "Event") -> float:
        return 0.0


class _NoDeviceChange:
    """`torch.cuda.device(0)`: a context that changes nothing."""

    def __init__(self, _device: Any = None) -> None:
        self.idx = 0

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_exc: object) -> None:
        pass


class _NoGraph:
    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        raise SubmissionUnsupportedError("CUDA graphs cannot run on the simulator", hint="judge it on a GPU")


@contextmanager
def _stream_context(stream: Stream | None) -> Any:
    yield stream


def device_properties() -> SimpleNamespace:
    """What `torch.cuda.get_device_properties` answers."""
    return SimpleNamespace(
        name=_NAME,
        major=_CAPABILITY[0],
        minor=_CAPABILITY[1],
        total_memory=_MEMORY_BYTES,
        multi_processor_count=132,
        warp_size=32,
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=48 * 1024,
        shared_memory_per_block_optin=227 * 1024,
        shared_memory_per_multiprocessor=228 * 1024,
        L2_cache_size=50 << 20,
        is_integrated=0,
        is_multi_gpu_board=0,
        gcnArchName="",
    )


def patch_cuda_module(torch: Any) -> None:
    """Replaces the functions and classes of `torch.cuda` in this process."""

    def answer(value: Any) -> Any:
        return lambda *_args, **_kwargs: value

    def seed(value: int) -> None:
        torch.default_generator.manual_seed(value)

    replaced = {
        "is_available": answer(True),
        "is_initialized": answer(True),
        "is_bf16_supported": answer(True),
        "init": answer(None),
        "device_count": answer(1),
        "current_device": answer(0),
        "set_device": answer(None),
        "get_device_name": answer(_NAME),
        "get_device_capability": answer(_CAPABILITY),
        "get_arch_list": answer(["sm_90"]),
        "get_device_properties": lambda *_args, **_kwargs: device_properties(),
        "synchronize": answer(None),
        "empty_cache": answer(None),
        "reset_peak_memory_stats": answer(None),
        "reset_max_memory_allocated": answer(None),
        "memory_allocated": answer(0),
        "memory_reserved": answer(0),
        "max_memory_allocated": answer(0),
        "max_memory_reserved": answer(0),
        "mem_get_info": answer((_MEMORY_BYTES, _MEMORY_BYTES)),
        "manual_seed": seed,
        "manual_seed_all": seed,
        "current_stream": lambda *_args, **_kwargs: Stream(),
        "default_stream": lambda *_args, **_kwargs: Stream(),
        "set_stream": answer(None),
        "stream": _stream_context,
        "Stream": Stream,
        "ExternalStream": Stream,
        "Event": Event,
        "device": _NoDeviceChange,
        "device_of": _NoDeviceChange,
        "CUDAGraph": _NoGraph,
        "graph": _NoGraph,
    }
    for name, value in replaced.items():
        setattr(torch.cuda, name, value)
    for name in ("range_push", "range_pop", "mark"):
        setattr(torch.cuda.nvtx, name, answer(0))
