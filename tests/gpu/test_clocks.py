"""Clocks and power limits, from a library that answers as NVML does."""

from types import SimpleNamespace

from warpsmith.gpu.clocks import gpu_pins
from warpsmith.types import GpuPin


class NVMLError(Exception):
    pass


def refuse(handle: str, *_: object) -> int:
    raise NVMLError


def library(**changed: object) -> SimpleNamespace:
    clocks = {"sm": 1980, "mem": 3201}
    answers: dict[str, object] = {
        "NVMLError": NVMLError,
        "NVML_CLOCK_SM": "sm",
        "NVML_CLOCK_MEM": "mem",
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": lambda index: f"GPU-{index}",
        "nvmlDeviceGetName": lambda handle: b"NVIDIA X1",
        "nvmlDeviceGetUUID": lambda handle: handle,
        "nvmlDeviceGetClockInfo": lambda handle, kind: clocks[kind],
        "nvmlDeviceGetMaxClockInfo": lambda handle, kind: clocks[kind] + 20,
        "nvmlDeviceGetEnforcedPowerLimit": lambda handle: 700_000,
    }
    return SimpleNamespace(**answers | changed)


def test_the_state_of_the_gpus_that_are_asked_for() -> None:
    wanted = GpuPin(
        name="NVIDIA X1", uuid="GPU-1", clock_mhz=1980, clock_max_mhz=2000, memory_clock_mhz=3201, power_limit_w=700.0
    )  # fmt: skip
    assert gpu_pins(["GPU-1"], library()) == (wanted,)
    assert gpu_pins([], library(nvmlInit=refuse)) == ()


def test_what_the_driver_does_not_tell_is_unknown() -> None:
    silent = library(nvmlDeviceGetClockInfo=refuse, nvmlDeviceGetEnforcedPowerLimit=refuse)
    (pin,) = gpu_pins(["GPU-0"], silent)
    assert (pin.clock_mhz, pin.clock_max_mhz, pin.power_limit_w) == (None, 2000, None)
