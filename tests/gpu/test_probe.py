"""The probe against a made-up NVML, and real processes where it looks at processes."""

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from warpsmith.gpu.probe import GpuProbe, GpuState, disturbance, probe_of, stuck, unread
from warpsmith.gpu.scripted import scripted_gpus

QUIET = GpuState(sm_mhz=1980, temperature_c=40, reasons=0, pids=frozenset({7}), foreign=frozenset())


class NVMLError(Exception):
    """As pynvml's."""


class NVMLErrorNotFound(NVMLError):
    """As pynvml's NVMLError_NotFound."""


def nvml(
    pids: list[int], missing: bool = False, reasons: int = 0, used: dict[int, int] | None = None
) -> SimpleNamespace:
    """An NVML of one GPU; `missing`: of a driver that tells nothing.

    `used`: percent of the cores by process; None of a driver that does not tell, empty of one without a sample.
    """

    def utilization(_handle: object, since_us: int) -> list[SimpleNamespace]:
        assert 0 < time.time() * 1e6 - since_us < 2e6
        if used is None:
            raise NVMLError
        if not used:
            raise NVMLErrorNotFound
        return [SimpleNamespace(pid=pid, smUtil=share) for pid, share in used.items()]

    def tells(value: object) -> object:
        def function(*_arguments: object) -> object:
            if missing:
                raise NVMLError
            return value

        return function

    return SimpleNamespace(
        NVMLError=NVMLError,
        NVMLError_NotFound=NVMLErrorNotFound,
        nvmlDeviceGetProcessUtilization=utilization,
        nvmlDeviceGetClockInfo=tells(1755),
        nvmlDeviceGetTemperature=tells(51),
        nvmlDeviceGetCurrentClocksThrottleReasons=tells(reasons),
        nvmlDeviceGetComputeRunningProcesses=tells([SimpleNamespace(pid=pid) for pid in pids]),
    )


def test_reads_clock_temperature_reasons_and_processes() -> None:
    state = GpuProbe(nvml([os.getpid()], reasons=4), "handle").read()
    assert state == GpuState(1755, 51, 4, frozenset({os.getpid()}), frozenset())
    assert unread(state) == ()


def test_what_the_driver_does_not_tell_is_none_and_disturbs_nothing() -> None:
    state = GpuProbe(nvml([], missing=True), "handle").read()
    assert state == GpuState()
    assert disturbance(state, state) == ""
    assert unread(state) == ("the SM clock", "the reasons for lower clocks", "the GPU's other processes")


def test_own_children_are_not_foreign_and_others_are() -> None:
    sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]
    child = subprocess.Popen(sleeping)
    try:
        state = GpuProbe(nvml([os.getpid(), child.pid, 1]), "handle").read()
    finally:
        child.kill()
        child.wait()
    assert state.foreign == frozenset({1})
    assert disturbance(QUIET, state) == "another process uses the GPU (pid 1)"


def test_a_foreign_process_that_runs_nothing_disturbs_nothing() -> None:
    here = [os.getpid(), 1]
    for used, foreign in ({1: 0, os.getpid(): 80}, set()), ({}, set()), ({1: 3}, {1}), (None, {1}):
        assert GpuProbe(nvml(here, used=used), "handle").read().foreign == foreign


def test_numbers_of_another_namespace_are_not_judged_but_their_changes_are() -> None:
    unknown = GpuProbe(nvml([4_000_001]), "handle").read()
    assert unknown.foreign is None
    two = GpuProbe(nvml([4_000_001, 4_000_002]), "handle").read()
    assert disturbance(unknown, unknown) == ""
    assert disturbance(unknown, two) == "1 process(es) came to the GPU or left it"


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (QUIET, ""),
        (GpuState(1900, 40, 0, QUIET.pids, frozenset()), ""),
        (
            GpuState(1400, 81, 0x4, QUIET.pids, frozenset()),
            "the SM clock went from 1980 to 1400 MHz at 81 °C",
        ),
        (GpuState(345, 40, 0x1, QUIET.pids, frozenset()), ""),
        (
            GpuState(1980, 90, 0x40, QUIET.pids, frozenset()),
            "the GPU's clocks were lowered: thermal slowdown by the hardware at 90 °C",
        ),
        (GpuState(1980, 40, 0x4, QUIET.pids, frozenset()), ""),
        (GpuState(None, None, None, QUIET.pids, frozenset()), ""),
    ],
)
def test_what_disturbs(after: GpuState, expected: str) -> None:
    assert disturbance(QUIET, after) == expected


def test_no_such_gpu_is_no_probe() -> None:
    assert probe_of("GPU-00000000-0000-0000-0000-000000000000") is None


@pytest.mark.gpu
def test_this_machines_gpu() -> None:
    from warpsmith.gpu import list_gpus

    gpus = list_gpus()
    if not gpus:
        pytest.skip("no NVIDIA GPU")
    state = probe_of(gpus[0].uuid).read()
    assert state.sm_mhz and state.sm_mhz > 100
    assert state.temperature_c and 10 < state.temperature_c < 110


def looked_at(busy_pct: list[int], pids: tuple[int, ...] = (), lost: bool = False) -> SimpleNamespace:
    """An NVML whose figure of use is `busy_pct`, one look after the other; `lost`: the GPU fell off the bus."""
    given = nvml(list(pids))
    looks = iter(busy_pct)

    def rates(_handle: object) -> SimpleNamespace:
        if lost:
            raise NVMLErrorNotFound("GPU is lost")
        return SimpleNamespace(gpu=next(looks))

    given.NVMLError_GpuIsLost = NVMLErrorNotFound
    given.nvmlInit = given.nvmlShutdown = lambda: None
    given.nvmlDeviceGetHandleByUUID = lambda uuid: "handle"
    given.nvmlDeviceGetUtilizationRates = rates
    return given


@pytest.mark.parametrize(
    ("fake", "said"),
    [
        (looked_at([0]), ""),
        # what has just ended is still in the driver's figure
        (looked_at([100, 90, 3]), ""),
        (looked_at([100, 100, 100]), "it is 100 % busy though no process is on it"),
        # somebody else's work is no fault
        (looked_at([], pids=(1,)), ""),
        (looked_at([], lost=True), "the driver does not answer for it: GPU is lost"),
    ],
)
def test_a_gpu_at_work_for_nobody_is_stuck(fake: SimpleNamespace, said: str) -> None:
    (gpu,) = scripted_gpus(1)
    assert stuck(gpu, looks=3, pause_s=0.0, nvml=fake) == said
