"""cuBLAS, cuDNN and their like: from the toolkit, else from NVIDIA's wheels, else the system's."""

import importlib.util
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from warpsmith.compile.toolchain import CudaToolkit
from warpsmith.errors import InfrastructureError

_BY_HEADER = {
    "cublas_v2.h": "cublas",
    "cublas.h": "cublas",
    "cublasLt.h": "cublasLt",
    "cudnn.h": "cudnn",
    "cufft.h": "cufft",
    "curand.h": "curand",
    "cusolverDn.h": "cusolver",
    "cusparse.h": "cusparse",
}
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([\w./]+)[>\"]", re.MULTILINE)
_SYSTEM = ("/usr/include", "/usr/include/x86_64-linux-gnu", "/usr/local/include")


def wheel_folders() -> tuple[Path, ...]:
    """The folders of NVIDIA's packages in this Python, such as `…/nvidia/cu13`."""
    spec = importlib.util.find_spec("nvidia")
    roots = spec.submodule_search_locations if spec is not None else None
    return tuple(folder for root in roots or () for folder in sorted(Path(root).glob("*")) if folder.is_dir())


def include_folders(toolkit: CudaToolkit, wheels: Iterable[Path]) -> tuple[Path, ...]:
    """Folders that hold headers which the toolkit lacks; to be searched after the toolkit's own."""
    lacking = [header for header in _BY_HEADER if not (toolkit.include / header).is_file()]
    folders = (wheel / "include" for wheel in wheels)
    return tuple(folder for folder in folders if any((folder / header).is_file() for header in lacking))


def wanted_libraries(
    files: Mapping[str, str], toolkit: CudaToolkit, wheels: Iterable[Path]
) -> frozenset[str]:
    """The libraries whose headers the sources include.

    Raises InfrastructureError for a header that is not on this machine, unless the sources ask whether it is there.
    """
    text = "\n".join(files.values())
    headers = set(_INCLUDE.findall(text)) & set(_BY_HEADER)
    folders = [toolkit.include, *include_folders(toolkit, wheels), *map(Path, _SYSTEM)]
    found = {header for header in headers if any((folder / header).is_file() for folder in folders)}
    for header in sorted(headers - found):
        if header not in files and "__has_include" not in text:
            raise InfrastructureError(
                f"the sources include {header}, which is not installed here",
                hint=f"install {_BY_HEADER[header]} for this CUDA version: the toolkit's, or NVIDIA's wheel",
            )
    return frozenset(_BY_HEADER[header] for header in found)


def link_flags(names: Iterable[str], toolkit: CudaToolkit, wheels: Iterable[Path]) -> tuple[str, ...]:
    """Flags that link the libraries, and that let the loader find them again."""
    flags: list[str] = []
    for name in sorted(set(names)):
        if (toolkit.lib / f"lib{name}.so").is_file():
            flags += [f"-l{name}", f"-Wl,-rpath,{toolkit.lib}"]
        elif (toolkit.lib / "stubs" / f"lib{name}.so").is_file():
            # the driver's own comes with the driver
            flags += [f"-L{toolkit.lib / 'stubs'}", f"-l{name}"]
        elif found := [p for wheel in wheels for p in sorted((wheel / "lib").glob(f"lib{name}.so*"))]:
            # wheels have no name without a version
            flags += [str(found[0]), f"-Wl,-rpath,{found[0].parent}"]
        else:
            flags.append(f"-l{name}")
    return tuple(dict.fromkeys(flags))
