"""compute-sanitizer's memcheck: where it is, how it starts a process, and what its report says in one line.

The form of the report: https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html#memcheck-tool
"""

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from warpsmith.errors import InfrastructureError
from warpsmith.sim.sanitizer import EXIT_STATUS, report_texts

NAME = "compute-sanitizer"
PADDING_BYTES = 4096
MISSING = f"{NAME} is not installed (it comes with the CUDA toolkit; set CUDA_HOME)"
_FAULT = re.compile(
    r"^=+ (?P<what>Invalid __(?P<space>\w+)__ (?P<access>\w+) of size (?P<bytes>\d+) bytes?"
    r"|Misaligned .*|Invalid .*)$",
    re.MULTILINE,
)
_AT = re.compile(
    r"^=+\s+at (?P<function>[^\n]*?)(?:\+0x[0-9a-f]+)?(?: in (?P<path>\S+?):(?P<line>\d+))?$", re.MULTILINE
)
_BY = re.compile(r"^=+\s+by thread \((?P<thread>[\d,]+)\) in block \((?P<block>[\d,]+)\)", re.MULTILINE)
_ADDRESS = re.compile(r"^=+\s+Address 0x[0-9a-f]+ is (?P<how>.+)$", re.MULTILINE)
_NEAREST = re.compile(
    r"^=+\s+and is (?P<how>[\d,]+ bytes (?:after|before) the nearest allocation)", re.MULTILINE
)


def find() -> str | None:
    """Path of compute-sanitizer: in CUDA_HOME, on PATH, in /usr/local/cuda; None where it is nowhere."""
    homes = (os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH"))
    places = [*(f"{home}/bin" for home in homes if home), os.environ.get("PATH"), "/usr/local/cuda/bin"]
    return next((path for place in places if place and (path := shutil.which(NAME, path=place))), None)


def launcher(report: Path) -> tuple[str, ...]:
    """Words that start a program under memcheck, writing to `report`.log. Raises InfrastructureError without it."""
    tool = find()
    if tool is None:
        raise InfrastructureError(MISSING)
    # A call of the driver that PyTorch makes to find something out is no fault. Without padding an allocation of
    # whole pages ends where the next begins, and an access beyond it is one of the next's.
    return (
        tool, "--tool", "memcheck", "--report-api-errors", "no", "--padding", str(PADDING_BYTES),
        "--error-exitcode", str(EXIT_STATUS), "--log-file", f"{report}.log",
    )  # fmt: skip


def read_reports(report: Path, sources: Iterable[str] = ()) -> str | None:
    """`read_report` on the files that a process with `launcher(report)` left."""
    return read_report("\n".join(report_texts(report)), sources)


def read_report(text: str, sources: Iterable[str] = ()) -> str | None:
    """One line for the first fault, or None without any. `sources`: the submission's files, to name places by."""
    fault = _FAULT.search(text)
    if fault is None:
        return None
    rest = text[fault.end() :]
    end = _FAULT.search(rest)
    rest = rest[: end.start()] if end else rest
    what = fault["what"]
    if fault["space"]:
        what = f"{fault['access']} of {fault['bytes']} bytes outside {fault['space']} memory"
    at, by = _AT.search(rest), _BY.search(rest)
    place = ""
    if at:
        function = at["function"].split("(")[0].strip()
        place = (
            f"{_named(at['path'], sources)}:{at['line']} in {function}: " if at["path"] else f"{function}: "
        )
    who = f", by thread ({by['thread']}) in block ({by['block']})" if by else ""
    near = _NEAREST.search(rest) or _ADDRESS.search(rest)
    return f"{place}{what}{who}" + (f": {near['how']}" if near else "")


def _named(path: str, sources: Iterable[str]) -> str:
    names = sorted(sources, key=len, reverse=True)
    return next((name for name in names if path == name or path.endswith("/" + name)), path)
