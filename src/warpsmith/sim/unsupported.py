"""Constructs that the simulator cannot run, found before a compiler sees them."""

import re

from warpsmith.errors import SubmissionUnsupportedError
from warpsmith.sim.tokens import TokenStream

_HINT = "the simulator runs plain CUDA C++; judge this submission on a GPU"

_INCLUDES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), what)
    for pattern, what in (
        (r"[<\"](cuda_)?mma\.h", "wmma (tensor cores)"),
        (r"[<\"](cuda_pipeline|cuda_awbarrier|cuda/pipeline|cuda/barrier|.*/memcpy_async)", "cp.async"),
        (r"[<\"]cuda/ptx", "inline PTX"),
        (r"[<\"]cub/", "CUB"),
        (r"[<\"]thrust/", "Thrust"),
        (r"[<\"](cutlass|cute)/", "CUTLASS"),
        (r"[<\"]cublas", "cuBLAS"),
        (r"[<\"]cudnn", "cuDNN"),
        (r"[<\"]curand", "cuRAND"),
        (r"[<\"]cufft", "cuFFT"),
        (r"[<\"]cusparse", "cuSPARSE"),
        (r"[<\"]cudaTypedefs\.h", "TMA"),
        (r"[<\"]ATen/cuda/CUDABlas", "cuBLAS"),
    )
)

_NAMES: tuple[tuple[re.Pattern[bytes], str], ...] = tuple(
    (re.compile(pattern), what)
    for pattern, what in (
        (rb"nvcuda|wmma", "wmma (tensor cores)"),
        (rb"memcpy_async|__pipeline_\w+|make_pipeline", "cp.async"),
        (rb"CUtensorMap|cuTensorMap\w+|cp_async_bulk\w*", "TMA"),
        (rb"this_grid|grid_group|cudaLaunchCooperativeKernel\w*", "grid synchronisation"),
        (rb"this_cluster|cluster_group", "thread block clusters"),
        (rb"cublas(Lt)?[A-Z]\w+", "cuBLAS"),
        (rb"cudnn[A-Z]\w+", "cuDNN"),
        (rb"curand\w+", "cuRAND"),
        (rb"cudaTextureObject_t|tex[123]D\w*", "textures"),
        (rb"cudaGraph[A-Z]\w+|cudaStreamBeginCapture", "CUDA graphs"),
    )
)
_NAMESPACES = {b"cub": "CUB", b"thrust": "Thrust", b"cutlass": "CUTLASS", b"cute": "CUTLASS"}
_ASM = (b"asm", b"__asm__", b"__asm")


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
        for name, what in _NAMES:
            if name.fullmatch(token.text):
                raise unsupported(path, source, token.start, what)


def _is_empty_asm(stream: TokenStream, index: int) -> bool:
    """`asm volatile("" ::: "memory")` only orders the compiler: g++ takes it as it is."""
    for token in stream.tokens[index + 1 : index + 4]:
        if token.kind == "string":
            return token.text == b'""'
    return False
