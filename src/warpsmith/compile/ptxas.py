"""Reads ptxas's resource report (`-Xptxas -v`)."""

import re
import shutil
import subprocess

from warpsmith.types import KernelResources

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")


def split_report(output: str) -> tuple[tuple[KernelResources, ...], str]:
    """The kernels that ptxas reports, under mangled names, and `output` without the report."""
    kernels: list[KernelResources] = []
    rest: list[str] = []
    entry, stores, loads = "", 0, 0
    for line in output.splitlines():
        if not line.startswith("ptxas info") and not _SPILLS.search(line):
            rest.append(line)
        elif match := _ENTRY.search(line):
            entry, stores, loads = match[1], 0, 0
        elif match := _SPILLS.search(line):
            stores, loads = int(match[1]), int(match[2])
        elif entry and (match := _USED.search(line)):
            kernels.append(
                KernelResources(
                    kernel=entry,
                    registers=int(match[1]),
                    spill_store_bytes=stores,
                    spill_load_bytes=loads,
                    shared_bytes=int(match[2] or 0),
                )
            )
            entry = ""
    return tuple(kernels), "\n".join(rest).strip()


def demangled(kernels: tuple[KernelResources, ...]) -> tuple[KernelResources, ...]:
    """The same with readable names, where binutils' c++filt is at hand."""
    tool = shutil.which("c++filt")
    if not kernels or tool is None:
        return kernels
    names = "".join(f"{kernel.kernel}\n" for kernel in kernels)
    try:
        answer = subprocess.run([tool], input=names, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return kernels
    readable = answer.stdout.splitlines()
    if len(readable) != len(kernels):
        return kernels
    return tuple(
        kernel.model_copy(update={"kernel": name.strip()})
        for kernel, name in zip(kernels, readable, strict=True)
    )
