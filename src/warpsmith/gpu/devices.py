"""The GPUs of this machine, by NVML, and what their datasheets say."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True)
class GpuInfo:
    """One GPU as NVML numbers and names it. `arch` is such as `sm_90`; `busy_pids` are its compute processes."""

    index: int
    uuid: str
    name: str
    memory_bytes: int
    driver: str
    arch: str
    busy_pids: tuple[int, ...] = ()

    @property
    def bandwidth_gb_s(self) -> float | None:
        """The datasheet's memory bandwidth in GB/s (10⁹ bytes), None where it is not known."""
        return bandwidth_gb_s(self.name)


# matched in order against the words of NVML's name; more special names first
_BANDWIDTH_GB_S: tuple[tuple[str, float], ...] = (
    ("GB300", 8000.0),
    ("B300", 8000.0),
    ("GB200", 8000.0),
    ("B200", 8000.0),
    ("H200", 4800.0),
    ("GH200 480GB", 4000.0),
    ("H100 NVL", 3938.0),
    ("H100 PCIe", 2000.0),
    ("H100", 3350.0),
    ("H800 PCIe", 2000.0),
    ("H800", 3350.0),
    ("H20", 4000.0),
    ("A100-SXM4-80GB", 2039.0),
    ("A100 80GB PCIe", 1935.0),
    ("A100-SXM4-40GB", 1555.0),
    ("A100-PCIE-40GB", 1555.0),
    ("A100", 1555.0),
    ("A40", 696.0),
    ("A30", 933.0),
    ("A10G", 600.0),
    ("A10", 600.0),
    ("L40S", 864.0),
    ("L40", 864.0),
    ("L4", 300.0),
    ("RTX PRO 6000", 1792.0),
    ("RTX 6000 Ada", 960.0),
    ("RTX A6000", 768.0),
    ("RTX 5090", 1792.0),
    ("RTX 5080", 960.0),
    ("RTX 4090 D", 1008.0),
    ("RTX 4090", 1008.0),
    ("RTX 4080 SUPER", 736.0),
    ("RTX 4080", 717.0),
    ("RTX 3090 Ti", 1008.0),
    ("RTX 3090", 936.0),
    ("V100S", 1134.0),
    ("V100", 900.0),
    ("T4", 320.0),
)


def bandwidth_gb_s(name: str) -> float | None:
    """Memory bandwidth in GB/s (10⁹ bytes) by the datasheet of the GPU with this NVML name, else None."""
    return by_name(name, _BANDWIDTH_GB_S)


def by_name(name: str, table: Iterable[tuple[str, Value]]) -> Value | None:
    """The first entry of `table` whose words stand in this NVML name, else None.

    A laptop GPU has less than its namesake, so none is given.
    """
    if "laptop" in name.lower():
        return None
    words = _words(name)
    for known, value in table:
        wanted = _words(known)
        if any(words[i : i + len(wanted)] == wanted for i in range(len(words))):
            return value
    return None


def list_gpus() -> tuple[GpuInfo, ...]:
    """The GPUs that NVML sees, in its order; none where there is no driver or no `nvidia-ml-py`."""
    try:
        import pynvml
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        driver = _text(pynvml.nvmlSystemGetDriverVersion())
        return tuple(_info(pynvml, index, driver) for index in range(pynvml.nvmlDeviceGetCount()))
    finally:
        pynvml.nvmlShutdown()


def _info(nvml, index: int, driver: str) -> GpuInfo:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    try:
        pids = tuple(process.pid for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle))
    except nvml.NVMLError:
        # containers and some drivers do not tell
        pids = ()
    return GpuInfo(
        index=index,
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        name=_text(nvml.nvmlDeviceGetName(handle)),
        memory_bytes=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
        driver=driver,
        arch=f"sm_{major}{minor}",
        busy_pids=pids,
    )


def _words(name: str) -> list[str]:
    return name.upper().replace("-", " ").split()


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
