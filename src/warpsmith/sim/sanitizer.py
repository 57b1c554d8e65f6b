"""What a process needs that loads a sanitized build, and what its report says in one line.

A sanitized build (`Target(device=Device.SIM, sanitize=True)`) ends its process with EXIT_STATUS at the first access
outside global, shared, local or constant memory, after free, or not aligned as its type needs. It sees the ends of
what `cudaMalloc` and PyTorch's CPU allocator gave; not the ends of tensors that share one mapping.
"""

import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from warpsmith.sim.toolchain import SimToolchain

EXIT_STATUS = 86
"""Exit status of a process that a sanitizer ended."""

MAX_REPORTS = 64
MAX_REPORT_BYTES = 1 << 20

_OPTIONS = {
    "exitcode": EXIT_STATUS,
    "halt_on_error": 1,
    "detect_leaks": 0,
    # fibers leave frames without returning
    "detect_stack_use_after_return": 0,
    # Python and PyTorch are not what is checked
    "alloc_dealloc_mismatch": 0,
    "new_delete_type_mismatch": 0,
    "detect_odr_violation": 0,
    "allocator_may_return_null": 1,
}
_HEAD = re.compile(r"ERROR: AddressSanitizer: (?P<kind>[\w-]+)")
_ACCESS = re.compile(r"^(?P<access>READ|WRITE) of size (?P<bytes>\d+)", re.MULTILINE)
_SIGNAL = re.compile(r"caused by a (?P<access>READ|WRITE) memory access")
_FRAME = re.compile(
    r"^\s*#\d+ 0x[0-9a-f]+ in (?P<function>.+?) (?P<path>\S+?):(?P<line>\d+)(?::\d+)?$", re.MULTILINE
)
_PLACE = re.compile(
    r"is located (?P<distance>\d+) bytes (?P<side>to the right of|to the left of|after|before|inside of|inside) "
    r"(?P<size>\d+)-byte region"
)
_MISALIGNED = re.compile(
    r"^(?P<path>\S+?):(?P<line>\d+):\d+: runtime error: (?P<what>.*misaligned.*)$", re.MULTILINE
)
_TYPE = re.compile(
    r"for type '(?:const |volatile |struct |union )*(?P<type>[^']+)', which requires (?P<bytes>\d+) byte"
)
# as gcc 12 says it; later versions say after, before and inside
_SIDES = {"to the right of": "after", "to the left of": "before", "inside of": "into", "inside": "into"}
_MEMORY = {
    "use-after-poison": "outside shared memory",
    "heap-buffer-overflow": "outside global memory",
    "heap-use-after-free": "to global memory that was freed",
    "stack-buffer-overflow": "outside a local array",
    "stack-buffer-underflow": "outside a local array",
    "stack-use-after-scope": "to a local variable that no longer exists",
    "dynamic-stack-buffer-overflow": "outside a local array",
    "global-buffer-overflow": "outside a __constant__ or __device__ variable",
    "SEGV": "to an address that is no memory",
    "stack-overflow": "beyond a thread's stack",
}


def environment(toolchain: SimToolchain | None = None, report: Path | None = None) -> dict[str, str]:
    """Environment variables for the process that loads a sanitized build.

    `report`: the sanitizers write to `report`.PID instead of stderr. The process must have no limit on its address
    space (RLIMIT_AS), as the checks reserve terabytes of it. Raises InfrastructureError where g++ has no libasan.
    """
    options = {**_OPTIONS, **({"log_path": str(report)} if report is not None else {})}
    text = ":".join(f"{name}={value}" for name, value in options.items())
    preload = " ".join((toolchain or SimToolchain()).sanitizer_preloads())
    return {"LD_PRELOAD": preload, "ASAN_OPTIONS": text, "UBSAN_OPTIONS": text}


def read_reports(report: Path, sources: Iterable[str] = ()) -> str | None:
    """`read_report` on all files that processes with `environment(report=report)` left, or None without any."""
    return read_report("\n".join(report_texts(report)), sources)


def report_texts(report: Path) -> list[str]:
    """What lies in the files `report`.*, each cut at a mebibyte; what is no plain file is left out.

    The process that wrote them may have put anything there.
    """
    texts = []
    for path in sorted(report.parent.glob(report.name + ".*"))[:MAX_REPORTS]:
        with suppress(OSError):
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(fd, "rb") as file:
                if stat.S_ISREG(os.fstat(fd).st_mode):
                    texts.append(file.read(MAX_REPORT_BYTES).decode(errors="replace"))
    return texts


def read_report(text: str, sources: Iterable[str] = ()) -> str | None:
    """One line that says what was done where, or None for text without a report.

    `sources`: paths of the submission's files, as which places are then named.
    """
    names = sorted(sources, key=len, reverse=True)
    head = _HEAD.search(text)
    misaligned = _MISALIGNED.search(text)
    if misaligned and (head is None or misaligned.start() < head.start()):
        return _misaligned(misaligned, names)
    if head is None:
        return None
    kind = head["kind"]
    rest = text[head.end() :]
    stack = rest.split("\n\n")[0]
    access = _ACCESS.search(rest) or _SIGNAL.search(rest)
    what = "access" if access is None else access["access"].lower()
    if access is not None and access.re is _ACCESS:
        what += f" of {access['bytes']} bytes"
    place = _where(_FRAME.finditer(stack), names)
    region = _PLACE.search(rest) if kind in ("heap-buffer-overflow", "heap-use-after-free") else None
    detail = ""
    if region:
        side = _SIDES.get(region["side"], region["side"])
        detail = f", {region['distance']} bytes {side} an allocation of {region['size']} bytes"
    return f"{place}: {what} {_MEMORY.get(kind, f'refused by AddressSanitizer ({kind})')}{detail}"


def _misaligned(found: re.Match[str], names: list[str]) -> str:
    place = f"{_named(found['path'], names)}:{found['line']}"
    typed = _TYPE.search(found["what"])
    if typed is None:
        return f"{place}: misaligned address"
    return f"{place}: misaligned address: `{typed['type']}` must lie at a multiple of {typed['bytes']} bytes"


def _where(frames: Iterable[re.Match[str]], names: list[str]) -> str:
    """The innermost frame in the submission's sources (without names: in a CUDA file), with its function."""
    for frame in frames:
        named = _named(frame["path"], names)
        if named in names or (not names and Path(named).suffix in (".cu", ".cuh")):
            function = frame["function"].split("(")[0].split("<")[0].split(" ")[-1]
            return f"{named}:{frame['line']} in {function}"
    return "outside the submission's sources"


def _named(path: str, names: list[str]) -> str:
    return next((name for name in names if path == name or path.endswith("/" + name)), path)
