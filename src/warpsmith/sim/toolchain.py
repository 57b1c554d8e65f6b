"""The compiler and the headers that build for the simulator."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from functools import cached_property
from pathlib import Path

from warpsmith.errors import InfrastructureError

INCLUDE_DIR = Path(__file__).parent / "include"
"""The simulator's headers. A shared object also needs one unit that includes `warpsmith_sim_exports.inc`."""

EXPORTS_UNIT = "#include <warpsmith_sim_exports.inc>\n"
"""Text of the C++ file that each shared object must hold exactly once: runtime and `warpsmith_take_error`."""

_PROBE_TIMEOUT_S = 20
# a GPU traps on a misaligned vector access; most else that C++ leaves undefined is defined in CUDA, or harmless
_SANITIZE = ("-fsanitize=address", "-fsanitize=alignment")
_NEEDED_HEADER = "cuda_runtime_api.h"
_NEEDED_BESIDE = ("crt/host_defines.h", "nv/target")
_WHEEL_SIBLINGS = ("cuda_nvcc", "cuda_cccl")
"""Wheels of CUDA 12 spread the headers over a folder a package."""


class SimToolchain:
    """Finds g++ and the CUDA headers once; raises InfrastructureError with a hint where either is absent."""

    def __init__(self, cxx: str | None = None, cuda_include: Path | None = None):
        self._cxx = cxx
        self._cuda_include = cuda_include

    def cxx(self) -> str:
        """Absolute path of g++ ($CXX where that is a g++, else g++ from PATH)."""
        return self._compiler[0]

    def cuda_include(self) -> tuple[Path, ...]:
        """Folders that hold the toolkit's headers, from a toolkit or from NVIDIA's wheels."""
        return self._headers

    def compile_flags(self, sanitize: bool = False) -> list[str]:
        """Flags for every source, `-c` and files excluded. `sanitize` adds checks of addresses and alignment."""
        flags = [
            "-std=c++20",
            "-O2",
            "-fPIC",
            # what nvcc's users rely on: reinterpreted pointers, wrapping integers; sqrt without errno
            "-fno-strict-aliasing",
            "-fwrapv",
            "-fno-math-errno",
            # two shared objects in one process must not share the runtime's state
            "-fno-gnu-unique",
            "-pthread",
            f"-I{INCLUDE_DIR}",
        ]
        for folder in self.cuda_include():
            flags += ["-idirafter", str(folder)]
        if sanitize:
            flags += [*_SANITIZE, "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g1"]
        return flags

    def link_flags(self, sanitize: bool = False) -> list[str]:
        """Flags for `g++ -shared`."""
        # -Bsymbolic: a CUDA runtime loaded by PyTorch must not take over our cudaMalloc
        flags = ["-pthread", "-Wl,-Bsymbolic"]
        return [*flags, *_SANITIZE] if sanitize else flags

    def sanitizer_preloads(self) -> tuple[str, ...]:
        """Libraries that must be preloaded by the process that loads a sanitized build."""
        # with libstdc++, as libasan looks for the exceptions' functions when it starts
        found = [
            _output([self.cxx(), f"-print-file-name={name}"]) for name in ("libasan.so", "libstdc++.so.6")
        ]
        if not all(path and Path(path).is_absolute() for path in found):
            raise InfrastructureError(
                "g++ has no libasan", hint="install gcc's sanitizer libraries (libasan, libubsan)"
            )
        return tuple(str(Path(path).resolve()) for path in found if path)

    def fingerprint(self) -> str:
        """Hash of compiler version, the simulator's headers and the CUDA headers' version."""
        digest = hashlib.sha256()
        digest.update(self._compiler[1].encode())
        for path in sorted(INCLUDE_DIR.rglob("*")):
            if path.is_file():
                digest.update(str(path.relative_to(INCLUDE_DIR)).encode() + b"\0" + path.read_bytes() + b"\0")
        for folder in self.cuda_include():
            digest.update(f"{folder}\0{_header_version(folder)}\0".encode())
        return digest.hexdigest()

    @cached_property
    def _compiler(self) -> tuple[str, str]:
        wanted = self._cxx or os.environ.get("CXX") or "g++"
        path = shutil.which(wanted)
        version = _output([path, "--version"]) if path else None
        if path is None or version is None:
            raise InfrastructureError(
                f"no C++ compiler: {wanted} does not run", hint="install g++ 11 or newer"
            )
        if "Free Software Foundation" not in version:
            if self._cxx is None and wanted != "g++":
                return SimToolchain(cxx="g++")._compiler
            raise InfrastructureError(f"{wanted} is not g++", hint="install g++ and unset CXX")
        return path, version.splitlines()[0]

    @cached_property
    def _headers(self) -> tuple[Path, ...]:
        candidates = [self._cuda_include] if self._cuda_include else _header_candidates()
        for folder in candidates:
            siblings = [folder.parent.parent / name / "include" for name in _WHEEL_SIBLINGS]
            # libcu++ has a folder of its own since CUDA 13
            folders = (folder, *(place for place in (*siblings, folder / "cccl") if place.is_dir()))
            if (folder / _NEEDED_HEADER).is_file() and all(
                any((place / name).is_file() for place in folders) for name in _NEEDED_BESIDE
            ):
                return folders
        raise InfrastructureError(
            f"no CUDA headers: no folder holds {', '.join((_NEEDED_HEADER, *_NEEDED_BESIDE))}",
            hint="set CUDA_HOME, or: pip install nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl",
        )


def _header_candidates() -> list[Path]:
    """Include folders in order of preference: $CUDA_HOME, /usr/local/cuda*, NVIDIA's wheels, the system's."""
    roots = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    roots.append(Path("/usr/local/cuda"))
    roots += sorted(Path("/usr/local").glob("cuda-*"), key=_version_key, reverse=True)
    folders = [root / "include" for root in roots]
    sites = dict.fromkeys([*sys.path, sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    for site in sites:
        nvidia = Path(site or ".") / "nvidia"
        folders += sorted(nvidia.glob("cu[0-9]*/include"), reverse=True)
        folders.append(nvidia / "cuda_runtime" / "include")
    return [*folders, Path("/usr/include")]


def _version_key(path: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", path.name))


def _header_version(folder: Path) -> str:
    """`CUDART_VERSION` as the header states it, empty for a folder without it."""
    header = folder / _NEEDED_HEADER
    if not header.is_file():
        return ""
    text = header.read_text(errors="replace")
    match = re.search(r"#define\s+CUDART_VERSION\s+(\d+)", text)
    return match[1] if match else hashlib.sha256(text.encode()).hexdigest()


def _output(argv: list[str]) -> str | None:
    """What a program prints, or None where it cannot run."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
