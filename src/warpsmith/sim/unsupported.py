"""Constructs that the simulator cannot run, found before a compiler sees them."""

import re
from collections.abc import Mapping
from functools import cache

from warpsmith.errors import SubmissionUnsupportedError
from warpsmith.sim.tokens import TokenStream
from warpsmith.sim.toolchain import INCLUDE_DIR

_STAND_INS = ("cublas_v2.h", "cublasLt.h", "cudnn.h")
_HINT = "the simulator runs plain CUDA C++; judge this submission on a GPU"

_INCLUDES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), what)
    for pattern, what in (
        (r"[<\"](cuda_)?mma\.h", "wmma (tensor cores)"),
        (r"[<\"](cuda_awbarrier|cuda/pipeline)", "an asynchronous pipeline (cuda::pipeline)"),
        (r"[<\"]cuda/barrier", "cuda::barrier"),
        (r"[<\"]cuda/ptx", "inline PTX"),
        (r"[<\"]cub/", "CUB"),
        (r"[<\"]thrust/", "Thrust"),
        (r"[<\"](cutlass|cute)/", "CUTLASS"),
        (r"[<\"](cublasXt|cublas_api)", "cuBLAS beyond cublas_v2.h and cublasLt.h"),
        (r"[<\"]cudnn_(backend|frontend|graph)", "cuDNN's graph API"),
        (r"[<\"]curand", "cuRAND"),
        (r"[<\"]cufft", "cuFFT"),
        (r"[<\"]cusparse", "cuSPARSE"),
        (r"[<\"]cusolver", "cuSOLVER"),
        (r"[<\"]nccl", "NCCL"),
        (r"[<\"]nvrtc", "NVRTC"),
        (r"[<\"]cudaTypedefs\.h", "TMA"),
        (r"[<\"]ATen/cuda/CUDABlas", "PyTorch's own cuBLAS wrappers"),
    )
)

_NAMES: tuple[tuple[re.Pattern[bytes], str], ...] = tuple(
    (re.compile(pattern), what)
    for pattern, what in (
        (rb"nvcuda|wmma", "wmma (tensor cores)"),
        (rb"make_pipeline|__mbarrier_\w+", "an asynchronous pipeline (cuda::pipeline)"),
        (rb"CUtensorMap|cuTensorMap\w+|cp_async_bulk\w*", "TMA"),
        (rb"cudaLaunchCooperativeKernel\w*|cudaLaunchAttributeCooperative", "grid synchronisation"),
        (
            rb"this_cluster|cluster_group|__cluster_dims__|cudaLaunchAttributeClusterDimension",
            "thread block clusters",
        ),
        (rb"curand\w+", "cuRAND"),
        (rb"cufft[A-Z]\w+", "cuFFT"),
        (rb"cusparse[A-Z]\w+", "cuSPARSE"),
        (
            rb"cudaTextureObject_t|cudaCreateTextureObject|tex[123]D(Lod|Grad|Layered|fetch)?|tex1Dfetch",
            "textures",
        ),
        (rb"cudaSurfaceObject_t|cudaCreateSurfaceObject|surf[123]D(read|write|Layered\w+)", "surfaces"),
        (rb"cudaGraph[A-Z]\w+|cudaStreamBeginCapture", "CUDA graphs"),
        (rb"cudaIpc\w+", "CUDA IPC"),
        (rb"cuda(Device)?(MemPool|Peer)\w+", "memory pools and peers"),
        (rb"cuModule\w+|cuLaunchKernel\w*|cuMem[A-Z]\w+", "the driver API"),
        (rb"setmaxnreg|__setmaxnreg\w*", "register reallocation"),
    )
)
_LIBRARY_NAME = re.compile(rb"(cublas|cudnn)(Lt)?[A-Z]\w+|CU(BLAS|DNN)_\w+")
_LIBRARIES = {b"cublas": "cuBLAS", b"cudnn": "cuDNN", b"CUBLAS": "cuBLAS", b"CUDNN": "cuDNN"}
_NAMESPACES = {b"cub": "CUB", b"thrust": "Thrust", b"cutlass": "CUTLASS", b"cute": "CUTLASS"}
_ASM = (b"asm", b"__asm__", b"__asm")


_SHOWN_LATE = {
    ".py": r"cpp_extension|load_inline|CUDAGraph|cuda\.graph|make_graphed_callables|reduce-overhead",
    "": r"cublas|cudnn|this_grid|grid_group|atomic|volatile|__threadfence|__nanosleep|\b__ld\w+|cudaLaunchKernel",
}
"""What may turn out to be unsupported only when it runs: builds and graphs in Python; in C++ library calls of types
that the stand-ins lack, and blocks that wait for one another."""


def may_show_late(sources: Mapping[str, str]) -> bool:
    """Whether these files (path → text) name anything that only running them shows to be unsupported.

    What a process says of itself counts only then: a submission that is wrong must not be able to call itself so.
    """
    return any(
        re.search(_SHOWN_LATE[".py" if path.endswith(".py") else ""], text) for path, text in sources.items()
    )


def unsupported(path: str, source: bytes, start: int, what: str) -> SubmissionUnsupportedError:
    """The error for a construct at byte `start` of `source`."""
    line = source.count(b"\n", 0, start) + 1
    return SubmissionUnsupportedError(f"{path}:{line}: {what} cannot run on the simulator", hint=_HINT)


def check_supported(stream: TokenStream, source: bytes, path: str) -> None:
    """Raises SubmissionUnsupportedError for the first construct that the simulator cannot run."""
    for include in stream.includes:
        for pattern, what in _INCLUDES:
            if pattern.match(include.target):
                raise unsupported(path, source, include.start, what)
    tokens = stream.tokens
    for i, token in enumerate(tokens):
        if token.kind != "name":
            continue
        if token.text in _ASM and not _is_empty_asm(stream, i):
            raise unsupported(path, source, token.start, "inline PTX (asm)")
        if token.text in _NAMESPACES and i + 1 < len(tokens) and tokens[i + 1].text == b"::":
            raise unsupported(path, source, token.start, _NAMESPACES[token.text])
        what = _construct(token.text)
        if what is not None:
            raise unsupported(path, source, token.start, what)


def _construct(name: bytes) -> str | None:
    """What a name stands for that cannot run here, or None."""
    library = _LIBRARY_NAME.fullmatch(name)
    if library and name not in _library_names():
        family = next(label for prefix, label in _LIBRARIES.items() if name.startswith(prefix))
        return f"{family}'s {name.decode()}"
    return next((what for pattern, what in _NAMES if pattern.fullmatch(name)), None)


@cache
def _library_names() -> frozenset[bytes]:
    """Names of cuBLAS and cuDNN that the stand-ins' headers know."""
    text = b"".join((INCLUDE_DIR / name).read_bytes() for name in _STAND_INS)
    return frozenset(match[0] for match in _LIBRARY_NAME.finditer(text))


def _is_empty_asm(stream: TokenStream, index: int) -> bool:
    """`asm volatile("" ::: "memory")` only orders the compiler: g++ takes it as it is."""
    for token in stream.tokens[index + 1 : index + 4]:
        if token.kind == "string":
            return token.text == b'""'
    return False
