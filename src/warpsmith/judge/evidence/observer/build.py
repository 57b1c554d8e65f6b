"""Builds the observer's two libraries, once a machine, and lays them out for runners.

What cannot be built leaves its reason in the library's place: a judgement goes on without it and says so.
"""

import contextlib
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from filelock import FileLock, Timeout

from warpsmith.compile.cache import Cache
from warpsmith.compile.process import BuildTimedOutError, Processes
from warpsmith.compile.toolchain import cxx_fingerprint, find_nvcc, require_cxx, require_torch
from warpsmith.errors import InfrastructureError, WarpsmithError
from warpsmith.judge.evidence.observer.parts import KERNELS, PARTS, library
from warpsmith.sandbox import LocalSandbox
from warpsmith.types import sha256_hex

BUILD_TIMEOUT_S = 240.0
_KIND = "observer"


def lay_out(cache_dir: Path, folder: Path, without: Mapping[str, str] | None = None) -> None:
    """Put both libraries into the new folder `folder`, readable to every user. Raises nothing.

    `without`: parts to leave out, and why.
    """
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        for part in PARTS:
            target = library(folder, part)
            reason = (without or {}).get(part) or _copied(cache_dir, part, target)
            if reason:
                target = target.with_suffix(".txt")
                target.write_text(reason)
            target.chmod(0o755)


def _copied(cache_dir: Path, part: str, target: Path) -> str:
    """Why a part could not be put at `target`; empty where it was."""
    try:
        shutil.copyfile(built(cache_dir, part), target)
    except (WarpsmithError, BuildTimedOutError, Timeout, OSError) as error:
        return str(error) or "its build took too long"
    return ""


def built(cache_dir: Path, part: str) -> Path:
    """The library of a part, from the cache or built now; of concurrent first uses one builds.

    Raises InfrastructureError where it cannot be built here, and filelock's Timeout.
    """
    source = Path(__file__).parent / f"{part}.cpp"
    argv, versions = _command(part)
    key = sha256_hex("\0".join([source.read_text(), *argv, versions]))
    cache = Cache(cache_dir)
    if (entry := cache.lookup(_KIND, key)) is not None:
        return entry.files / f"{part}.so"
    cache_dir.mkdir(parents=True, exist_ok=True)
    with FileLock(cache_dir / f"{part}.lock", timeout=BUILD_TIMEOUT_S):
        entry = cache.lookup(_KIND, key)
        if entry is None:
            with cache.workspace() as work:
                files = work / "files"
                files.mkdir()
                output = files / f"{part}.so"
                whole = [*argv, str(source), "-o", str(output), *_libraries(part)]
                ran = Processes(BUILD_TIMEOUT_S, LocalSandbox()).run(whole, work)
                if ran.exit_code or not output.is_file():
                    cache.check_space()
                    said = next((line for line in ran.output.splitlines() if "error" in line), "no message")
                    raise InfrastructureError(f"the observer of {part} does not compile: {said[:300]}")
                entry = cache.publish(_KIND, key, files)
    return entry.files / f"{part}.so"


def _command(part: str) -> tuple[list[str], str]:
    """The compiler's arguments before the source, and the versions that the result depends on."""
    cxx = require_cxx()
    base = [str(cxx), "-O2", "-fPIC", "-shared", "-fvisibility=default"]
    versions = cxx_fingerprint(cxx)
    if part == KERNELS:
        headers = cupti_headers()
        return [
            *base,
            "-std=c++17",
            *(word for path in headers for word in ("-isystem", str(path))),
        ], versions
    torch = require_torch()
    includes = [word for path in torch.includes for word in ("-isystem", str(path))]
    flags = ["-D_GLIBCXX_USE_CXX11_ABI=1", f"-std={torch.cxx_standard}", *includes]
    return [*base, *flags], versions + torch.version + sys.version.split()[0]


def _libraries(part: str) -> list[str]:
    if part == KERNELS:
        return ["-ldl"]
    lib = require_torch().lib
    return [f"-L{lib}", f"-Wl,-rpath,{lib}", "-ltorch_cpu", "-lc10"]


def cupti_headers() -> tuple[Path, ...]:
    """The toolkit's folder of headers where CUPTI's are there: the layout of its records is then checked."""
    nvcc = find_nvcc()
    if nvcc is None:
        return ()
    root = nvcc.resolve().parent.parent
    folders = (root / "include", root / "extras/CUPTI/include")
    return tuple(folders) if any((folder / "cupti.h").is_file() for folder in folders) else ()
