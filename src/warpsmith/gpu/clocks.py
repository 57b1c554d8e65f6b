"""The state of this machine's GPUs, by NVML: clocks and power limits decide what a time means."""

from collections.abc import Callable, Collection
from types import ModuleType

from warpsmith.types import GpuPin


def gpu_pins(uuids: Collection[str], nvml: ModuleType | None = None) -> tuple[GpuPin, ...]:
    """The GPUs of these UUIDs as they are now; a figure that NVML does not tell is None. `nvml`: another pynvml."""
    if not uuids:
        return ()
    if nvml is None:
        import pynvml as nvml
    nvml.nvmlInit()
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        found = [_pin(nvml, handle) for handle in handles]
    finally:
        nvml.nvmlShutdown()
    return tuple(pin for pin in found if pin.uuid in uuids)


def _pin(nvml: ModuleType, handle: object) -> GpuPin:
    def told(ask: Callable[[], int]) -> int | None:
        try:
            return int(ask())
        except nvml.NVMLError:
            # virtual and partitioned GPUs do not tell everything
            return None

    power_mw = told(lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle))
    return GpuPin(
        name=_text(nvml.nvmlDeviceGetName(handle)),
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        clock_mhz=told(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
        clock_max_mhz=told(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)),
        memory_clock_mhz=told(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)),
        power_limit_w=None if power_mw is None else power_mw / 1000,
    )


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
