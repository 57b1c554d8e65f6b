"""Flags that a submission gives `load_inline` or `load`: what passes, what means nothing here, what is refused."""

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from warpsmith.compile.options import is_allowed, standard
from warpsmith.compile.requests import ExtensionRequest
from warpsmith.errors import CompileFailedError

LIBRARIES = frozenset("cublas cublasLt cudnn cufft curand cusolver cusparse cuda nvrtc".split())
"""What may be linked besides the runtime and PyTorch."""
_PRESENT = re.compile(r"cudart|c10(?:_cuda)?|torch(?:_\w+)?|m|dl|rt|pthread|stdc\+\+|nvToolsExt")
_CXX = re.compile(r"-O(?:[0-3sg]|fast)|-[DU][A-Za-z_]\w*(?:=[\w.+-]*)?|-f(?:openmp|fast-math|no-math-errno)")
_CXX_IDLE = re.compile(
    r"-g[0-3]?|-f(?:PIC|pic|permissive|diagnostics-\S*|unroll-loops|visibility=hidden)|-w|-pipe|-pthread"
    r"|-m(?:arch|tune)=native|-W(?![lap],)[\w=+-]*"
)
_CUDA = re.compile(r"-U[A-Za-z_]\w*|--?restrict")
_CUDA_IDLE = re.compile(
    r"-g|-lineinfo|-w|-W[\w=-]*|--?(?:resource-usage|res-usage|verbose)|-v|--?(?:threads|t|split-compile)=\d+"
    r"|--?(?:ccbin|diag[-_]suppress|Xcudafe|display[-_]error[-_]number)\S*|-rdc=false|--?relocatable-device-code=false"
)
_PTXAS = re.compile(
    r"-O[0-3]|-d(?:lcm|scm)=c[agsv]|--?allow-expensive-optimizations=(?:true|false)|--?maxrregcount=\d+"
)
_PTXAS_IDLE = re.compile(r"-v|--?verbose|-w|--?warn-\S+")
_ARCH = re.compile(r"(?:sm|compute|lto)_(\d{2,3})([af]?)")
_TWO_WORDS = {
    "-gencode": "gencode", "--generate-code": "gencode",
    "-arch": "arch", "--gpu-architecture": "arch", "-code": "arch", "--gpu-code": "arch",
    "-Xcompiler": "host", "--compiler-options": "host",
    "-Xptxas": "ptxas", "--ptxas-options": "ptxas",
    "-Xcudafe": "idle", "-diag-suppress": "idle", "--diag-suppress": "idle", "-ccbin": "idle",
    "-t": "idle", "--threads": "idle",
    "-std": "std", "--std": "std",
    "-maxrregcount": "maxrregcount", "--maxrregcount": "maxrregcount",
}  # fmt: skip


@dataclass(frozen=True)
class ExtensionFlags:
    """What is left of a request's flags. `arch`: the target's, or the same with an `a` or `f`, if asked for."""

    cxx: tuple[str, ...]
    cuda: tuple[str, ...]
    libraries: tuple[str, ...]
    openmp: bool
    arch: str


def extension_flags(request: ExtensionRequest, arch: str) -> ExtensionFlags:
    """The flags of a build for `arch` (empty on the simulator, where architectures mean nothing).

    Raises CompileFailedError with one line that names the refused flag, or the architecture that does not match.
    """
    reader = _Reader(request.name, arch)
    reader.cuda_flags(request.cuda_cflags)
    reader.cxx_flags(request.cflags)
    reader.link_flags(request.ldflags)
    return ExtensionFlags(
        tuple(reader.cxx), tuple(reader.cuda), tuple(reader.libraries), reader.openmp, reader.chosen_arch()
    )


class _Reader:
    def __init__(self, name: str, arch: str):
        self._name, self._arch = name, arch
        self._named: list[str] = []
        self.cxx: list[str] = []
        self.cuda: list[str] = []
        self.libraries: list[str] = []
        self.openmp = False

    def cuda_flags(self, flags: Iterable[str]) -> None:
        for kind, flag, value in _pairs(self._split(flags)):
            if kind in ("gencode", "arch"):
                self._named += [value] if value != "native" else []
            elif kind == "host":
                self._host(flag, value)
            elif kind == "ptxas":
                self._ptxas(flag, value)
            elif kind == "std":
                self.cuda.append(f"-std={value}")
            elif kind == "maxrregcount":
                self.cuda.append(f"-maxrregcount={value}")
            elif flag.startswith("-l") and not is_allowed(flag):
                self.link_flags([flag])
            elif kind != "idle" and not (_CUDA_IDLE.fullmatch(flag) and not is_allowed(flag)):
                self.cuda.append(flag)
        for flag in self.cuda:
            if not (is_allowed(flag) or _CUDA.fullmatch(flag) or flag.startswith("-Xptxas=")):
                raise self._refused("nvcc", flag)

    def cxx_flags(self, flags: Iterable[str]) -> None:
        for flag in self._split(flags):
            if standard(flag) or _CXX.fullmatch(flag):
                self.cxx.append(flag)
                self.openmp |= flag == "-fopenmp"
            elif not _CXX_IDLE.fullmatch(flag):
                raise self._refused("C++", flag)

    def link_flags(self, flags: Iterable[str]) -> None:
        for flag in self._split(flags):
            library = flag.removeprefix("-l").removeprefix(":lib").removesuffix(".so")
            if flag.startswith("-l") and library in LIBRARIES:
                self.libraries.append(library)
            elif flag == "-fopenmp" or flag == "-lgomp":
                self.openmp = True
            elif not (
                # where a library lies is not the submission's to say
                flag.startswith(("-L", "-Wl,-rpath", "-Wl,--no-as-needed", "-Wl,--as-needed"))
                or (flag.startswith("-l") and _PRESENT.fullmatch(library))
                or flag in ("-O2", "-O3", "-shared", "-s")
            ):
                raise self._refused("linker", flag)

    def chosen_arch(self) -> str:
        """The target's architecture, or its variant that the flags name. CompileFailedError where none fits."""
        wanted = [match for word in self._named for match in _ARCH.finditer(word)]
        if not self._arch or not wanted:
            return self._arch
        number = re.sub(r"\D", "", self._arch)
        fitting = [match[2] for match in wanted if match[1] == number]
        if not fitting:
            raise CompileFailedError(
                f"{self._name}: the flags name {', '.join(dict.fromkeys(m[0] for m in wanted))}, but this GPU is "
                f"{self._arch}; leave -arch and -gencode out, the right one is added"
            )
        return next((f"sm_{number}{variant}" for variant in fitting if variant), self._arch)

    def _host(self, flag: str, value: str) -> None:
        for word in value.strip("'\"").split(","):
            if not (_CXX.fullmatch(word) or _CXX_IDLE.fullmatch(word)):
                raise self._refused("nvcc", f"{flag} {value}")

    def _ptxas(self, flag: str, value: str) -> None:
        for word in value.strip("'\"").split(","):
            if _PTXAS.fullmatch(word):
                self.cuda.append(f"-Xptxas={word}")
            elif not _PTXAS_IDLE.fullmatch(word):
                raise self._refused("nvcc", f"{flag} {value}")

    def _split(self, flags: Iterable[str]) -> list[str]:
        try:
            return [word for flag in flags for word in shlex.split(flag)]
        except ValueError as error:
            raise CompileFailedError(f"{self._name}: the flags cannot be read: {error}") from error

    def _refused(self, tool: str, flag: str) -> CompileFailedError:
        return CompileFailedError(f"{self._name}: {tool} flag {flag[:200]!r} is not allowed")


def _pairs(words: list[str]) -> Iterable[tuple[str, str, str]]:
    """(kind, flag, value): options of two words, or of one with `=`, put together."""
    rest = iter(words)
    for word in rest:
        flag, equals, value = word.partition("=")
        kind = _TWO_WORDS.get(flag)
        if kind is None:
            yield "", word, ""
        else:
            yield kind, flag, value if equals else next(rest, "")
