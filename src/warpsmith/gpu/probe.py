"""What else happens on a GPU while something is timed on it: by NVML, in this process."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsmith.gpu.devices import GpuInfo

CLOCK_CHANGE = 0.05
"""Relative change of the SM clock that disturbs a measurement: as much as the reward's margin."""
_SM_CLOCK = 1
_CORE_TEMPERATURE = 0
_IDLE = 0x1
_SLOWED = {
    0x8: "hardware slowdown", 0x20: "thermal slowdown by the driver",
    0x40: "thermal slowdown by the hardware", 0x80: "external power brake",
}  # fmt: skip
"""Reasons for lower clocks, as `nvml.h` numbers them, that lie outside the work (a power cap does not)."""
_STUCK_PCT = 50
_MAX_ANCESTORS = 64
_LOOK_BACK_US = 1_000_000
"""How far back a process's work on the GPU counts; the driver samples it several times a second."""


@dataclass(frozen=True)
class GpuState:
    """One reading; None for what the driver does not tell.

    `pids`: compute processes on the GPU. `foreign`: those that this process did not start, and that ran something in
    the last second where the driver tells that: a context that lies idle takes no time. None where the driver's
    process numbers are not the ones seen here. `reasons`: why clocks are below their maximum, a bit mask of nvml.h.
    """

    sm_mhz: int | None = None
    temperature_c: int | None = None
    reasons: int | None = None
    pids: frozenset[int] | None = None
    foreign: frozenset[int] | None = None

    @property
    def idle(self) -> bool:
        """True where clocks are low because there is nothing to do: they say nothing then."""
        return bool((self.reasons or 0) & _IDLE)


def disturbance(before: GpuState, after: GpuState) -> str:
    """One line on what came between two readings, or was there all along; empty where nothing is known of."""
    for state in (before, after):
        if state.foreign:
            return f"another process uses the GPU (pid {min(state.foreign)})"
    if before.pids is not None and after.pids is not None and before.pids != after.pids:
        return f"{len(before.pids ^ after.pids)} process(es) came to the GPU or left it"
    for bit, name in _SLOWED.items():
        if ((before.reasons or 0) | (after.reasons or 0)) & bit:
            return f"the GPU's clocks were lowered: {name}{_at(after.temperature_c)}"
    clocks = before.sm_mhz, after.sm_mhz
    if None not in clocks and not (before.idle or after.idle):
        low, high = sorted(clocks)
        if high - low > CLOCK_CHANGE * high:
            return f"the SM clock went from {before.sm_mhz} to {after.sm_mhz} MHz{_at(after.temperature_c)}"
    return ""


def unread(state: GpuState) -> tuple[str, ...]:
    """What the driver does not tell, for a note."""
    told = {
        "the SM clock": state.sm_mhz,
        "the reasons for lower clocks": state.reasons,
        "the GPU's other processes": state.foreign,
    }
    return tuple(name for name, value in told.items() if value is None)


class GpuProbe:
    """Reads one GPU through an initialised `pynvml` (or what stands in for it)."""

    def __init__(self, nvml: Any, handle: Any):
        self._nvml, self._handle = nvml, handle

    def read(self) -> GpuState:
        """The GPU now. Never raises for what the driver does not tell."""
        nvml, handle = self._nvml, self._handle
        reasons = getattr(
            nvml, "nvmlDeviceGetCurrentClocksEventReasons", nvml.nvmlDeviceGetCurrentClocksThrottleReasons
        )
        found = self._ask(nvml.nvmlDeviceGetComputeRunningProcesses, handle)
        pids = None if found is None else frozenset(process.pid for process in found)
        return GpuState(
            sm_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, handle, _SM_CLOCK),
            temperature_c=self._ask(nvml.nvmlDeviceGetTemperature, handle, _CORE_TEMPERATURE),
            reasons=self._ask(reasons, handle),
            pids=pids,
            foreign=_foreign(pids, self._busy()),
        )

    def _busy(self) -> frozenset[int] | None:
        """Processes that used the GPU's cores lately; None where the driver does not tell."""
        since = int(time.time() * 1e6) - _LOOK_BACK_US
        try:
            samples = self._nvml.nvmlDeviceGetProcessUtilization(self._handle, since)
        except self._nvml.NVMLError as error:
            # No sample is how the driver says that nothing ran.
            nothing = getattr(self._nvml, "NVMLError_NotFound", ())
            return frozenset() if nothing and isinstance(error, nothing) else None
        return frozenset(sample.pid for sample in samples if sample.smUtil > 0)

    def _ask(self, function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except self._nvml.NVMLError:
            # Containers, MIG slices and some drivers do not tell.
            return None


def probe_of(uuid: str) -> GpuProbe | None:
    """A probe of the GPU of this UUID; None without `nvidia-ml-py`, a driver or such a GPU.

    NVML stays initialised until this process ends: starting it takes longer than all readings.
    """
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        return GpuProbe(pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid))
    except pynvml.NVMLError:
        return None


def stuck(gpu: GpuInfo, *, looks: int = 6, pause_s: float = 0.5, nvml: Any = None) -> str:
    """One line where the GPU is at work all the while though no process is on it; empty where nothing is known.

    To be asked when nothing of ours is on the GPU. The driver's figure of use lags by up to a second, so it is read
    until it falls, `looks` times at most.
    """
    try:
        if nvml is None:
            import pynvml as nvml
        nvml.nvmlInit()
    except (ImportError, getattr(nvml, "NVMLError", ImportError)):
        return ""
    try:
        handle = nvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
        for look in range(looks):
            if look:
                time.sleep(pause_s)
            if nvml.nvmlDeviceGetComputeRunningProcesses(handle):
                return ""
            busy_pct = nvml.nvmlDeviceGetUtilizationRates(handle).gpu
            if busy_pct < _STUCK_PCT:
                return ""
    except nvml.NVMLError as error:
        return f"the driver does not answer for it: {error}" if _is_lost(nvml, error) else ""
    finally:
        nvml.nvmlShutdown()
    return f"it is {busy_pct} % busy though no process is on it"


def _is_lost(nvml: Any, error: Exception) -> bool:
    lost = getattr(nvml, "NVMLError_GpuIsLost", ())
    return bool(lost) and isinstance(error, lost)


def _foreign(pids: frozenset[int] | None, busy: frozenset[int] | None) -> frozenset[int] | None:
    """Those of `pids` that are neither this process nor started by it, and are `busy` where that is known.

    None where this process is not among them: it holds a context where it times anything; if it is not listed, the
    numbers are of another PID namespace.
    """
    if pids is None or os.getpid() not in pids:
        return None
    working = pids if busy is None else pids & busy
    return frozenset(pid for pid in working if not _descends(pid))


def _descends(pid: int) -> bool:
    for _ in range(_MAX_ANCESTORS):
        if pid == os.getpid():
            return True
        if pid <= 1:
            return False
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            # It ended since: what is gone is told by the next reading.
            return True
        # The name, in parentheses, may hold anything; parent follows the state.
        pid = int(stat.rpartition(")")[2].split()[1])
    return False


def _at(temperature_c: int | None) -> str:
    return "" if temperature_c is None else f" at {temperature_c} °C"
