"""Nsight Compute's command line: where it is, how it starts a program, and what its table says.

The options and the raw page as CSV (a row of names, a row of units, a row for each launch):
https://docs.nvidia.com/nsight-compute/NsightComputeCli/index.html
"""

import csv
import math
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from warpsmith.types import KernelProfile, Stall

NAME = "ncu"
INSTALLED = ("/usr/local/cuda/bin", "/opt/nvidia/nsight-compute")
"""Where the toolkit and NVIDIA's packages put it; the second is also where the first's script leads."""
MAX_LAUNCHES = 200
STALLS = 3
_NOT_PERMITTED = "ERR_NVGPUCTRPERM"
"""The identifier that NVIDIA documents for counters that this user may not read, in ncu's log.

https://developer.nvidia.com/ERR_NVGPUCTRPERM
"""
_REMARK = "=="
"""Begins each line of the log that is not of the table."""
_ERROR = "==ERROR=="
_FIELDS = {
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": "dram_percent",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "sm_percent",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy_percent",
    "launch__registers_per_thread": "registers",
    "l1tex__t_sector_hit_rate.pct": "l1_hit_percent",
    "lts__t_sector_hit_rate.pct": "l2_hit_percent",
}
_DURATION = "gpu__time_duration.sum"
_STALL = re.compile(
    r"smsp__average_warps_issue_stalled_(?P<reason>\w+?)(?<!_not_issued)_per_issue_active\.ratio"
)
_STALL_SECTION = "WarpStateStats"
_NO_STALL = "selected"
_MICROSECONDS = {
    "ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6,
    "nsecond": 1e-3, "usecond": 1.0, "msecond": 1e3, "second": 1e6,
}  # fmt: skip
"""Newer versions abbreviate."""


class TableError(ValueError):
    """What should be ncu's table is none."""


def find() -> str | None:
    """Path of ncu: in CUDA_HOME, on PATH, where it is usually installed; None where it is nowhere."""
    homes = (os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH"))
    versions = sorted(Path(INSTALLED[1]).glob("*"), reverse=True)
    places = [
        *(f"{home}/bin" for home in homes if home),
        os.environ.get("PATH"),
        INSTALLED[0],
        *map(str, versions),
    ]
    return next((path for place in places if place and (path := shutil.which(NAME, path=place))), None)


def folders(tool: str) -> tuple[str, ...]:
    """What a process must be able to read to run this ncu, a script that leads to the program proper."""
    homes = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
    wanted = [
        os.path.dirname(tool),
        os.path.dirname(os.path.realpath(tool)),
        *(home for home in homes if home and Path(tool).is_relative_to(home)),
        INSTALLED[1],
    ]
    return tuple(dict.fromkeys(folder for folder in wanted if os.path.isdir(folder)))


def launcher(tool: str, table: Path) -> tuple[str, ...]:
    """Words that start a program under ncu, which measures what it runs in its profiler range and writes `table`.

    Clocks stay as they are: locking them is a setting of the whole GPU. ncu reads no configuration, which it would
    look for in the submission's folder.
    """
    return (
        tool, "--target-processes", "all", "--profile-from-start", "off",
        "--launch-count", str(MAX_LAUNCHES), "--clock-control", "none", "--config-file", "off",
        "--section", _STALL_SECTION, "--metrics", ",".join((_DURATION, *_FIELDS)),
        "--csv", "--page", "raw", "--print-units", "base", "--log-file", str(table),
    )  # fmt: skip


def not_permitted(text: str) -> bool:
    """Whether ncu says in its log that this user may not read the GPU's counters.

    Its exit status does not tell: the identifier in the text is the only interface.
    """
    return _NOT_PERMITTED in text


def remark(text: str) -> str:
    """The first error that ncu tells in its log, without its mark; empty where it tells none."""
    return next(
        (line.removeprefix(_ERROR).strip() for line in text.splitlines() if line.startswith(_ERROR)), ""
    )


def read_table(text: str) -> tuple[KernelProfile, ...]:
    """The kernels of a log, those first that took the longest together; none where no launch was measured.

    Raises TableError where it is not the table that is documented.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(_REMARK)]
    try:
        rows = list(csv.reader(lines, strict=True))
    except csv.Error as error:
        raise TableError(str(error)) from None
    if not rows:
        return ()
    names, units, launches = rows[0], rows[1] if len(rows) > 1 else [], rows[2:]
    if "Kernel Name" not in names or len(set(names)) != len(names) or len(units) != len(names):
        raise TableError("its first rows are not names and units")
    if any(len(row) != len(names) for row in launches):
        raise TableError("its rows differ in length")
    scale = _scale(dict(zip(names, units, strict=True)))
    grouped: dict[str, list[Mapping[str, float]]] = {}
    for row in launches:
        cells = dict(zip(names, row, strict=True))
        grouped.setdefault(cells["Kernel Name"], []).append(_numbers(cells, scale))
    kernels = [_kernel(name, found) for name, found in grouped.items()]
    return tuple(sorted(kernels, key=lambda k: -(k.duration_us or 0.0) * k.launches))


def _scale(units: Mapping[str, str]) -> float:
    unit = units.get(_DURATION, "us")
    if unit not in _MICROSECONDS:
        raise TableError(f"a duration in {unit!r}")
    return _MICROSECONDS[unit]


def _numbers(cells: Mapping[str, str], scale: float) -> dict[str, float]:
    """The cells of one launch that are metrics and hold a number."""
    found = {}
    for name, cell in cells.items():
        if name in _FIELDS or name == _DURATION or _STALL.fullmatch(name):
            value = _number(cell)
            if value is not None:
                found[name] = value * scale if name == _DURATION else value
    return found


def _number(cell: str) -> float | None:
    """A number with or without commas between thousands; None for what the GPU does not measure (`n/a`, empty)."""
    if cell in ("", "n/a", "(n/a)"):
        return None
    try:
        value = float(cell.replace(",", ""))
    except ValueError:
        raise TableError(f"{cell[:40]!r} is no number") from None
    return value if math.isfinite(value) and value >= 0 else None


def _kernel(name: str, launches: Sequence[Mapping[str, float]]) -> KernelProfile:
    mean = {}
    for metric in dict.fromkeys(metric for launch in launches for metric in launch):
        values = [launch[metric] for launch in launches if metric in launch]
        mean[metric] = sum(values) / len(values)
    stalls = [
        Stall(reason=match["reason"], cycles=value)
        for metric, value in mean.items()
        if (match := _STALL.fullmatch(metric)) and match["reason"] != _NO_STALL and value > 0
    ]
    fields = {field: mean[metric] for metric, field in _FIELDS.items() if metric in mean}
    return KernelProfile(
        kernel=name, launches=len(launches), duration_us=mean.get(_DURATION),
        stalls=tuple(sorted(stalls, key=lambda s: -s.cycles)[:STALLS]), **fields,
    )  # fmt: skip
