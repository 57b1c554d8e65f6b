"""What `doctor` looks at: one function a finding, each cheap and none of them fatal."""

import importlib.metadata
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

from warpsmith.errors import WarpsmithError
from warpsmith.judge.machine import torch_build

DEVICES = ("sim", "cuda")
_BOTH = frozenset(DEVICES)
_GPU = frozenset({"cuda"})
_SIM = frozenset({"sim"})
_NOBODY: frozenset[str] = frozenset()

MIN_FREE_BYTES = 2 * 1024**3
_PROBE_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Finding:
    """One line of the doctor. `needed_by` are the devices that do not work without it."""

    name: str
    ok: bool
    detail: str
    hint: str | None = None
    needed_by: frozenset[str] = _BOTH


def examine() -> list[Finding]:
    """Every finding, in the order shown. A check that raises one of our errors is a missing thing."""
    return [_attempt(name, check, needed_by) for name, check, needed_by in CHECKS]


def missing_for(device: str, findings: list[Finding]) -> list[str]:
    """Names of what `device` lacks; empty where it works."""
    return [f.name for f in findings if not f.ok and device in f.needed_by]


def _attempt(name: str, check: Callable[[], str], needed_by: frozenset[str]) -> Finding:
    try:
        return Finding(name, True, check(), needed_by=needed_by)
    except WarpsmithError as error:
        return Finding(name, False, str(error), error.hint, needed_by)


def _missing(detail: str, hint: str) -> WarpsmithError:
    return WarpsmithError(detail, hint=hint)


def _python() -> str:
    if not (3, 11) <= sys.version_info < (3, 14):
        raise _missing(platform.python_version(), "install Python 3.11, 3.12 or 3.13")
    return f"{platform.python_version()} ({sys.executable})"


def _torch() -> str:
    build = torch_build()
    cuda = build.get("cuda")
    return f"{build['__version__']}, {f'built for CUDA {cuda}' if cuda else 'built without CUDA'}"


def _torch_cuda() -> str:
    if not torch_build().get("cuda"):
        raise _missing("this PyTorch is built without CUDA", "install a CUDA build from pytorch.org")
    probe = "import torch; print(torch.cuda.device_count() if torch.cuda.is_available() else 0)"
    try:
        command = [sys.executable, "-c", probe]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=True)
        count = int(answer.stdout)
    except (subprocess.SubprocessError, ValueError, OSError) as error:
        raise _missing("PyTorch does not start", f"run: {sys.executable} -c 'import torch'") from error
    if count == 0:
        raise _missing("PyTorch sees no GPU", "check the driver with nvidia-smi and CUDA_VISIBLE_DEVICES")
    return f"sees {count} GPU{'s' if count > 1 else ''}"


def _build_parts() -> str:
    names = ("numpy", "tree-sitter", "tree-sitter-cuda", "ninja", "nvidia-ml-py")
    absent = [name for name in names if not _installed(name)]
    if absent:
        raise _missing(f"{', '.join(absent)} not installed", "pip install 'warpsmith[judge]'")
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)


def _installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _gpus() -> str:
    from warpsmith.gpu.devices import list_gpus

    gpus = list_gpus()
    if not gpus:
        raise _missing("no NVIDIA GPU was found", "install the NVIDIA driver, or use --device sim")
    names = "; ".join(f"{gpu.index}: {gpu.name} ({gpu.arch})" for gpu in gpus)
    return f"{names}, driver {gpus[0].driver}"


def _nvcc() -> str:
    from warpsmith.compile.toolchain import require_cuda

    toolkit = require_cuda()
    return f"{toolkit.version} ({toolkit.nvcc})"


def _cxx() -> str:
    from warpsmith.compile.toolchain import cxx_version, require_cxx

    cxx = require_cxx()
    return f"{cxx_version(cxx)} ({cxx})"


def _headers() -> str:
    from warpsmith.sim.toolchain import SimToolchain

    return str(SimToolchain().cuda_include()[0])


def _sandbox() -> str:
    from warpsmith.sandbox import SANDBOXES, best_available

    chosen = best_available()
    if chosen.name == SANDBOXES[-1].name:
        reasons = [f"{kind.name}: {kind().unavailable()}" for kind in SANDBOXES[:-1]]
        raise _missing("nothing isolates submissions here", "; ".join(reasons))
    return chosen.name


def _cache() -> str:
    from warpsmith.store import cache_root

    return str(cache_root())


def _disk() -> str:
    from warpsmith.store import cache_root

    free = shutil.disk_usage(cache_root()).free
    text = f"{free / 1024**3:.1f} GiB free for the cache"
    if free < MIN_FREE_BYTES:
        raise _missing(text, "free some space, or set WARPSMITH_CACHE to another disk")
    return text


CHECKS: tuple[tuple[str, Callable[[], str], frozenset[str]], ...] = (
    ("Python", _python, _BOTH),
    ("PyTorch", _torch, _BOTH),
    ("build parts", _build_parts, _BOTH),
    ("g++", _cxx, _BOTH),
    ("CUDA headers", _headers, _SIM),
    ("GPU", _gpus, _GPU),
    ("PyTorch CUDA", _torch_cuda, _GPU),
    ("CUDA toolkit", _nvcc, _GPU),
    ("sandbox", _sandbox, _NOBODY),
    ("cache", _cache, _BOTH),
    ("disk", _disk, _BOTH),
)
"""One line a check: name, what finds it, the devices that need it."""
