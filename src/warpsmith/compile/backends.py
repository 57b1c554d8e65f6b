"""The two targets: nvcc for a GPU, and the host compiler with the simulator's headers."""

from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Protocol

from warpsmith.compile import support
from warpsmith.compile.options import defines, merged
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
_HEADER_LIBRARIES = {
    "cublas_v2.h": "cublas",
    "cublas.h": "cublas",
    "cublasLt.h": "cublasLt",
    "cudnn.h": "cudnn",
    "cufft.h": "cufft",
    "curand.h": "curand",
    "cusparse.h": "cusparse",
}


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

    def cuda_argv(self, flags: tuple[str, ...], *, torch: bool) -> tuple[str, ...]: ...

    def cpp_argv(self, *, torch: bool) -> tuple[str, ...]: ...

    def link_argv(self, tree: SourceTree, *, torch: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What stands before the objects, and what after."""
        ...

    def readable(self, kernels: tuple[KernelResources, ...]) -> tuple[KernelResources, ...]:
        """The same kernels with names for a person."""
        ...


def backend_for(target: Target) -> Backend:
    """The backend of a target. Raises InfrastructureError or UsageError where it cannot build here."""
    return CudaBackend(target.arch) if target.device is Device.CUDA else SimBackend()


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

    def cuda_argv(self, flags: tuple[str, ...], *, torch: bool) -> tuple[str, ...]:
        number = self._arch.removeprefix("sm_")
        base = (
            str(self._toolkit.nvcc),
            f"-ccbin={self._cxx}",
            f"-gencode=arch=compute_{number},code=sm_{number}",
            *("-Xptxas", "-v", "-Xcompiler", "-fPIC", "-I."),
        )
        if not torch:
            return (*base, *merged(("-O3", "-std=c++17"), flags), "-c")
        defaults = ("-O3", "--use_fast_math", f"-std={self._torch.cxx_standard}")
        return (*base, *_TORCH_NVCC, *_torch_flags(self._torch), *merged(defaults, flags), "-c")

    def cpp_argv(self, *, torch: bool) -> tuple[str, ...]:
        cuda = ("-isystem", str(self._toolkit.include))
        if not torch:
            return (str(self._cxx), "-O2", "-fPIC", *cuda, "-c")
        standard = f"-std={self._torch.cxx_standard}"
        return (str(self._cxx), "-O3", standard, "-fPIC", "-I.", *_torch_flags(self._torch), *cuda, "-c")

    def link_argv(self, tree: SourceTree, *, torch: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
        lib = str(self._toolkit.lib)
        wanted = {
            name for h, name in _HEADER_LIBRARIES.items() if h in frozenset().union(*tree.included.values())
        }
        libraries = tuple(f"-l{name}" for name in sorted(wanted))
        if libraries:
            libraries += (f"-Wl,-rpath,{lib}",)
        if torch:
            # the shared runtime, which is PyTorch's: its error checks would not see another's errors
            own = _torch_libraries(self._torch)
            # a CPU build of PyTorch has no CUDA libraries to check against
            checked = _REPORT_UNDEFINED if "c10_cuda" in self._torch.libraries else ()
            return (str(self._cxx), *_SHARED, *checked), (*own, f"-L{lib}", *libraries, "-lcudart")
        static = ("-lcudart_static", "-lpthread", "-ldl", "-lrt")
        strict = ("-Wl,--no-undefined", "-Wl,--exclude-libs,ALL")
        return (str(self._cxx), *_SHARED, *strict), (f"-L{lib}", *libraries, *static)

    def readable(self, kernels: tuple[KernelResources, ...]) -> tuple[KernelResources, ...]:
        return demangled(kernels)


class SimBackend:
    """The host compiler and the simulator's headers; sources are rewritten to plain C++ first."""

    device = Device.SIM

    def __init__(self) -> None:
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

    def cuda_argv(self, flags: tuple[str, ...], *, torch: bool) -> tuple[str, ...]:
        own = _torch_flags(self._torch) if torch else ()
        base = (self._cxx, "-I../sources", *self._sim.compile_flags())
        return (*base, *own, *defines(flags), "-x", "c++", "-c")

    def cpp_argv(self, *, torch: bool) -> tuple[str, ...]:
        return self.cuda_argv((), torch=torch)

    def link_argv(self, tree: SourceTree, *, torch: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if torch:
            own = _torch_libraries(self._torch)
            return (self._cxx, *_SHARED, *_REPORT_UNDEFINED), (*own, *self._sim.link_flags())
        return (self._cxx, *_SHARED, "-Wl,--no-undefined"), tuple(self._sim.link_flags())

    def readable(self, kernels: tuple[KernelResources, ...]) -> tuple[KernelResources, ...]:
        return kernels


def _torch_flags(torch: TorchBuild) -> tuple[str, ...]:
    flags = (
        "-DTORCH_EXTENSION_NAME=cuda_extension",
        "-DTORCH_API_INCLUDE_EXTENSION_H",
        "-D_GLIBCXX_USE_CXX11_ABI=1",
    )
    if not (torch.includes[0] / "c10/cuda/impl/cuda_cmake_macros.h").is_file():
        # a CPU build of PyTorch carries the CUDA headers without this generated one
        flags += ("-DC10_CUDA_NO_CMAKE_CONFIGURE_FILE",)
    return flags + tuple(word for path in torch.includes for word in ("-isystem", str(path)))


def _torch_libraries(torch: TorchBuild) -> tuple[str, ...]:
    return (f"-L{torch.lib}", f"-Wl,-rpath,{torch.lib}", *(f"-l{name}" for name in torch.libraries))
