"""The two targets: nvcc for a GPU, and the host compiler with the simulator's headers."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Protocol

from warpsmith.compile import libraries, support
from warpsmith.compile.options import defines, merged, raised
from warpsmith.compile.ptxas import demangled
from warpsmith.compile.sources import SourceTree
from warpsmith.compile.toolchain import (
    CudaToolkit,
    TorchBuild,
    check_arch,
    cuda_fingerprint,
    cxx_fingerprint,
    require_cuda,
    require_cxx,
    require_torch,
)
from warpsmith.errors import UsageError
from warpsmith.sim.rewrite import rewrite_source
from warpsmith.sim.toolchain import SimToolchain
from warpsmith.types import Device, KernelResources, Target

_CUDA_SUFFIXES = frozenset({".cu", ".cuh", ".h", ".hpp", ".hh", ".inl", ".inc"})
_SHARED = ("-shared", "-Wl,-Bsymbolic", "-Wl,--demangle")
# an extension leaves Python's symbols open, so this cannot be an error of the linker's
_REPORT_UNDEFINED = ("-Wl,--no-undefined", "-Wl,--warn-unresolved-symbols")
# what PyTorch's own extension builder gives nvcc, so that sources written for it mean the same here
_TORCH_NVCC = (
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
    "--expt-relaxed-constexpr",
)
# two libraries in one process must not share the variables of inline functions
_OWN_VARIABLES = "-fno-gnu-unique"


@dataclass(frozen=True)
class TorchExtension:
    """A Python module that is compiled against PyTorch: what its units are given besides their flags.

    `include` are folders of the submission. `inline`: built as `load_inline` does, with no flags of ours.
    """

    name: str = "cuda_extension"
    inline: bool = False
    include: tuple[str, ...] = ()


class Backend(Protocol):
    """How sources become a library on one target. Arguments are complete but for source and output."""

    device: Device

    def fingerprint(self, *, torch: bool) -> str:
        """What decides results besides sources and arguments: versions of compilers, and of PyTorch."""
        ...

    def rewrite(self, tree: SourceTree) -> SourceTree:
        """The tree as this target's compiler needs it."""
        ...

    def support_units(self, *, torch: bool) -> tuple[tuple[str, str], ...]:
        """C++ files (path, text) that a library needs besides the submission's."""
        ...

    def cuda_argv(self, flags: tuple[str, ...], torch: TorchExtension | None) -> tuple[str, ...]: ...

    def cpp_argv(self, flags: tuple[str, ...], torch: TorchExtension | None) -> tuple[str, ...]: ...

    def link_argv(
        self, tree: SourceTree, *, torch: bool, linked: tuple[str, ...] = (), openmp: bool = False
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What stands before the objects, and what after. `linked`: libraries besides those of the headers."""
        ...

    def readable(self, kernels: tuple[KernelResources, ...]) -> tuple[KernelResources, ...]:
        """The same kernels with names for a person."""
        ...


def backend_for(target: Target) -> Backend:
    """The backend of a target. Raises InfrastructureError or UsageError where it cannot build here."""
    if target.device is Device.SIM:
        return SimBackend(target.sanitize)
    if target.sanitize:
        raise UsageError("only the simulator builds sanitized", hint="sanitize with device sim")
    return CudaBackend(target.arch)


class CudaBackend:
    """nvcc, one real architecture, the runtime linked statically unless PyTorch brings its own."""

    device = Device.CUDA

    def __init__(self, arch: str):
        if not arch:
            raise UsageError("a cuda target needs an architecture", hint="give one such as sm_90")
        self._cxx = require_cxx()
        self._toolkit: CudaToolkit = require_cuda()
        check_arch(self._toolkit, arch)
        self._arch = arch
        self._versions = cuda_fingerprint(self._toolkit, self._cxx)

    @cached_property
    def _torch(self) -> TorchBuild:
        return require_torch()

    def fingerprint(self, *, torch: bool) -> str:
        return self._versions + (self._torch.version if torch else "")

    def rewrite(self, tree: SourceTree) -> SourceTree:
        return tree

    def support_units(self, *, torch: bool) -> tuple[tuple[str, str], ...]:
        return () if torch else ((support.TAKE_ERROR_PATH, support.TAKE_ERROR),)

    @cached_property
    def _wheels(self) -> tuple[Path, ...]:
        return libraries.wheel_folders()

    @cached_property
    def _more_headers(self) -> tuple[str, ...]:
        folders = libraries.include_folders(self._toolkit, self._wheels)
        return tuple(word for folder in folders for word in ("-isystem", str(folder)))

    def cuda_argv(self, flags: tuple[str, ...], torch: TorchExtension | None) -> tuple[str, ...]:
        number = self._arch.removeprefix("sm_")
        base = (
            str(self._toolkit.nvcc),
            f"-ccbin={self._cxx}",
            f"-gencode=arch=compute_{number},code=sm_{number}",
            *("-Xptxas", "-v", "-Xcompiler", "-fPIC", "-I."),
        )
        if torch is None:
            return (*base, *self._more_headers, *merged(("-O3", "-std=c++17"), flags), "-c")
        standard = self._torch.cxx_standard
        own = merged(
            ("-O3", *(() if torch.inline else ("--use_fast_math",)), f"-std={standard}"),
            raised(flags, standard),
        )
        unique = ("-Xcompiler", _OWN_VARIABLES) if torch.inline else ()
        return (
            *base,
            *_TORCH_NVCC,
            *unique,
            *_torch_flags(self._torch, torch),
            *self._more_headers,
            *own,
            "-c",
        )

    def cpp_argv(self, flags: tuple[str, ...], torch: TorchExtension | None) -> tuple[str, ...]:
        cuda = ("-isystem", str(self._toolkit.include), *self._more_headers)
        if torch is None:
            return (str(self._cxx), "-O2", "-fPIC", *cuda, "-c")
        standard = self._torch.cxx_standard
        usual = (f"-std={standard}",) if torch.inline else ("-O3", f"-std={standard}")
        unique = (_OWN_VARIABLES,) if torch.inline else ()
        own = merged(usual, raised(flags, standard))
        return (str(self._cxx), *own, "-fPIC", "-I.", *unique, *_torch_flags(self._torch, torch), *cuda, "-c")

    def link_argv(
        self, tree: SourceTree, *, torch: bool, linked: tuple[str, ...] = (), openmp: bool = False
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        lib = str(self._toolkit.lib)
        wanted = libraries.wanted_libraries(tree.files, self._toolkit, self._wheels) | set(linked)
        more = (*libraries.link_flags(wanted, self._toolkit, self._wheels), *(("-lgomp",) if openmp else ()))
        if torch:
            # the shared runtime, which is PyTorch's: its error checks would not see another's errors
            own = _torch_libraries(self._torch)
            # a CPU build of PyTorch has no CUDA libraries to check against
            checked = _REPORT_UNDEFINED if "c10_cuda" in self._torch.libraries else ()
            return (str(self._cxx), *_SHARED, *checked), (*own, f"-L{lib}", *more, "-lcudart")
        static = ("-lcudart_static", "-lpthread", "-ldl", "-lrt")
        strict = ("-Wl,--no-undefined", "-Wl,--exclude-libs,ALL")
        return (str(self._cxx), *_SHARED, *strict), (f"-L{lib}", *more, *static)

    def readable(self, kernels: tuple[KernelResources, ...]) -> tuple[KernelResources, ...]:
        return demangled(kernels)


class SimBackend:
    """The host compiler and the simulator's headers; sources are rewritten to plain C++ first."""

    device = Device.SIM

    def __init__(self, sanitize: bool = False) -> None:
        self._sanitize = sanitize
        self._sim = SimToolchain()
        self._cxx = str(self._sim.cxx())
        self._versions = self._sim.fingerprint() + cxx_fingerprint(Path(self._cxx))

    @cached_property
    def _torch(self) -> TorchBuild:
        return require_torch()

    def fingerprint(self, *, torch: bool) -> str:
        return self._versions + (self._torch.version if torch else "")

    def rewrite(self, tree: SourceTree) -> SourceTree:
        return SourceTree(
            {
                path: rewrite_source(text, path) if PurePosixPath(path).suffix in _CUDA_SUFFIXES else text
                for path, text in tree.files.items()
            }
        )

    def support_units(self, *, torch: bool) -> tuple[tuple[str, str], ...]:
        return ((support.SIM_RUNTIME_PATH, support.SIM_RUNTIME),)

    def cuda_argv(self, flags: tuple[str, ...], torch: TorchExtension | None) -> tuple[str, ...]:
        return self._argv(flags, torch)

    def cpp_argv(self, flags: tuple[str, ...], torch: TorchExtension | None) -> tuple[str, ...]:
        # bindings alone: optimizing PyTorch's headers would cost a third of the time, and no time counts here
        return self._argv(flags, torch, *(("-O0",) if torch is not None else ()))

    def _argv(self, flags: tuple[str, ...], torch: TorchExtension | None, *level: str) -> tuple[str, ...]:
        own = _torch_flags(self._torch, torch, "../sources/") if torch is not None else ()
        openmp = ("-fopenmp",) if "-fopenmp" in flags else ()
        base = (self._cxx, "-I../sources", *self._sim.compile_flags(self._sanitize), *level)
        return (*base, *own, *defines(flags), *openmp, "-x", "c++", "-c")

    def link_argv(
        self, tree: SourceTree, *, torch: bool, linked: tuple[str, ...] = (), openmp: bool = False
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        more = (*self._sim.link_flags(self._sanitize), *(("-lgomp",) if openmp else ()))
        if torch:
            return (self._cxx, *_SHARED, *_REPORT_UNDEFINED), (*_torch_libraries(self._torch), *more)
        return (self._cxx, *_SHARED, "-Wl,--no-undefined"), more

    def readable(self, kernels: tuple[KernelResources, ...]) -> tuple[KernelResources, ...]:
        return kernels


def _torch_flags(build: TorchBuild, torch: TorchExtension, sources: str = "") -> tuple[str, ...]:
    """`sources`: where the submission lies, seen from where the compiler runs."""
    flags = (
        f"-DTORCH_EXTENSION_NAME={torch.name}",
        "-DTORCH_API_INCLUDE_EXTENSION_H",
        "-D_GLIBCXX_USE_CXX11_ABI=1",
    )
    if not (build.includes[0] / "c10/cuda/impl/cuda_cmake_macros.h").is_file():
        # a CPU build of PyTorch carries the CUDA headers without this generated one
        flags += ("-DC10_CUDA_NO_CMAKE_CONFIGURE_FILE",)
    flags += tuple(f"-I{sources}{folder}" for folder in torch.include)
    return flags + tuple(word for path in build.includes for word in ("-isystem", str(path)))


def _torch_libraries(torch: TorchBuild) -> tuple[str, ...]:
    return (f"-L{torch.lib}", f"-Wl,-rpath,{torch.lib}", *(f"-l{name}" for name in torch.libraries))
