"""Finds the compilers of this machine and says what they can build."""

import functools
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from warpsmith.errors import InfrastructureError, MissingExtraError, UsageError

_CUDA_HINT = "install the CUDA toolkit 12.4 or later and set CUDA_HOME to its folder"
_CXX_HINT = "install g++ (Debian, Ubuntu: apt install g++), or set CXX to a GNU C++ compiler"

EXPORTED_SYMBOLS = ("nm", "-D", "--defined-only")
"""Lists what a library exports; part of binutils, without which g++ cannot work."""


@dataclass(frozen=True)
class CudaToolkit:
    """A CUDA toolkit. `codes` are the real architectures it builds for, such as `sm_90`."""

    nvcc: Path
    version: str
    include: Path
    lib: Path
    codes: tuple[str, ...]


@dataclass(frozen=True)
class TorchBuild:
    """What a C++ extension of the installed PyTorch is compiled and linked with."""

    version: str
    includes: tuple[Path, ...]
    lib: Path
    libraries: tuple[str, ...]
    cxx_standard: str


def find_nvcc() -> Path | None:
    """nvcc of $CUDA_HOME, $CUDA_PATH, /usr/local/cuda, or PATH, in that order."""
    for root in _cuda_roots():
        nvcc = root / "bin" / "nvcc"
        if os.access(nvcc, os.X_OK):
            return nvcc
    found = shutil.which("nvcc")
    return Path(found) if found else None


def nvcc_version(nvcc: Path) -> str:
    """Such as `13.0.88`. Raises InfrastructureError where nvcc does not run."""
    match = re.search(r"\bV([0-9]+(?:\.[0-9]+)+)", _answer(nvcc, "--version"))
    if match is None:
        raise InfrastructureError(f"{nvcc} --version names no version", hint=_CUDA_HINT)
    return match[1]


def find_cxx() -> Path | None:
    """$CXX where it is one program, else g++, else c++."""
    for name in (os.environ.get("CXX", ""), "g++", "c++"):
        if name and (found := shutil.which(name)):
            return Path(found)
    return None


def cxx_version(cxx: Path) -> str:
    """First line of `--version`. Raises InfrastructureError where the compiler does not run."""
    return _answer(cxx, "--version").splitlines()[0]


def require_cxx() -> Path:
    """The C++ compiler. Raises InfrastructureError with a hint where there is none."""
    cxx = find_cxx()
    if cxx is None:
        raise InfrastructureError("no C++ compiler found", hint=_CXX_HINT)
    return cxx


def require_cuda() -> CudaToolkit:
    """The CUDA toolkit. Raises InfrastructureError with a hint: no nvcc, no headers, no runtime library."""
    nvcc = find_nvcc()
    if nvcc is None:
        raise InfrastructureError("no nvcc found in $CUDA_HOME, /usr/local/cuda or PATH", hint=_CUDA_HINT)
    # Debian puts nvcc into /usr/bin, and a wrapper script on PATH does not say where the toolkit is
    roots = [nvcc.resolve().parent.parent, *_cuda_roots()]
    include = _first(roots, ("include", "targets/x86_64-linux/include"), "cuda_runtime.h")
    if include is None:
        raise InfrastructureError(f"no CUDA headers (cuda_runtime.h) beside {nvcc}", hint=_CUDA_HINT)
    folders = ("lib64", "lib", "targets/x86_64-linux/lib", "lib/x86_64-linux-gnu")
    lib = _first(roots, folders, "libcudart_static.a")
    if lib is None:
        raise InfrastructureError(f"no CUDA runtime (libcudart_static.a) beside {nvcc}", hint=_CUDA_HINT)
    codes = tuple(_answer(nvcc, "--list-gpu-code").split())
    return CudaToolkit(nvcc, nvcc_version(nvcc), include, lib, codes)


def check_arch(toolkit: CudaToolkit, arch: str) -> None:
    """Raises UsageError for what is no architecture, InfrastructureError for one the toolkit cannot build."""
    match = re.fullmatch(r"(sm_[0-9]{2,3})[af]?", arch)
    if match is None:
        raise UsageError(f"{arch!r} is not a GPU architecture", hint="give one such as sm_90 or sm_90a")
    if match[1] not in toolkit.codes:
        raise InfrastructureError(
            f"nvcc {toolkit.version} cannot build for {arch}; it builds for {', '.join(toolkit.codes)}",
            hint="set CUDA_HOME to a toolkit that knows this architecture, or choose one of those",
        )


def cuda_fingerprint(toolkit: CudaToolkit, cxx: Path) -> str:
    """What decides, besides sources and flags, what these compilers make."""
    return _answer(toolkit.nvcc, "--version") + cxx_fingerprint(cxx)


def cxx_fingerprint(cxx: Path) -> str:
    """Version and target of the host compiler."""
    return _answer(cxx, "--version") + _answer(cxx, "-dumpmachine")


def require_torch() -> TorchBuild:
    """Where the installed PyTorch keeps headers and libraries, found without importing it.

    Raises MissingExtraError without torch, InfrastructureError without Python's or torch's headers.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise MissingExtraError(
            "building PyTorch bindings needs torch", hint="pip install 'warpsmith[judge]'"
        )
    root = Path(spec.origin).parent
    python = Path(sysconfig.get_paths()["include"])
    if not (python / "Python.h").is_file():
        raise InfrastructureError(
            f"no Python headers in {python}", hint="install them (Debian, Ubuntu: apt install python3-dev)"
        )
    if not (root / "include" / "torch").is_dir():
        raise InfrastructureError(f"no C++ headers in {root}", hint="reinstall torch from its official wheel")
    version = importlib.metadata.version("torch")
    names = ("torch_python", "torch", "torch_cuda", "torch_cpu", "c10_cuda", "c10")
    present = tuple(name for name in names if (root / "lib" / f"lib{name}.so").is_file())
    # its headers use C++20 from 2.12 on, as its own extension builder does
    recent = tuple(int(part) for part in re.findall(r"\d+", version)[:2]) >= (2, 12)
    includes = (root / "include", root / "include/torch/csrc/api/include", python)
    return TorchBuild(version, includes, root / "lib", present, "c++20" if recent else "c++17")


def _cuda_roots() -> list[Path]:
    named = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    return [Path(root) for root in (*named, "/usr/local/cuda") if root]


def _first(roots: list[Path], folders: tuple[str, ...], file: str) -> Path | None:
    for root in roots:
        for folder in folders:
            if (root / folder / file).is_file():
                return root / folder
    return None


def _answer(program: Path, *arguments: str) -> str:
    try:
        return _asked(program, program.stat().st_mtime_ns, arguments)
    except (OSError, subprocess.SubprocessError) as error:
        raise InfrastructureError(
            f"{program} {' '.join(arguments)} does not run", hint="run `warpsmith doctor`"
        ) from error


@functools.lru_cache(maxsize=64)
def _asked(program: Path, changed_ns: int, arguments: tuple[str, ...]) -> str:
    # `changed_ns` makes a compiler that was replaced a different question
    return subprocess.run(
        [program, *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    ).stdout
