"""Where a kernel comes from, by its name and by what the build knows; and which the paper's rules allow.

A name alone proves nothing for a submission's benefit: own is only what its own build compiled, under exactly that
name, and nothing of torch's namespaces is ever own. A name that looks like a library's is the library's only where
the build does not have it.
"""

import re
from collections.abc import Iterable

from warpsmith.compile.ptxas import demangled
from warpsmith.types import KernelKind, KernelResources

_CONVOLUTION = "fprop|dgrad|wgrad|conv|winograd"
_GPUS = "pascal|volta|turing|ampere|hopper|maxwell"
_TORCH = re.compile(r"(?:at|at_cuda_detail|c10|torch|pytorch_flash|fmha_cutlass\w*)::|fmha_cutlass[FB]_")
_CUTLASS = re.compile(r"cutlass\w*::(?:\w+::)*\w*[Kk]ernel\w*<\s*(\w+)")
_LOOKS: tuple[tuple[KernelKind, tuple[str, ...]], ...] = (
    (KernelKind.TRITON, ("triton_",)),
    (
        KernelKind.CUDNN,
        (
            r"(?:cudnn|cask__cudnn|cask_cudnn|dnn)(?:::|_)",
            rf"(?:sm\d+_xmma|cutlass\w*|{_GPUS})_\w*(?:{_CONVOLUTION})",
            r"\w+_s?cudnn_",
            r"\w*(?:implicit|explicit)_convolve_",
            r"conv2d_(?:c1_k1|grouped)|fft2d_[rc]2[rc]|im2col4d|flip_filter|wgrad_alg|winograd_nonfused",
            r"nchwToNhwc|nhwcToNchw|tensorTransformGeneric|xmma_new::",
        ),
    ),
    (
        KernelKind.CUBLAS,
        (
            r"cublas(?:Lt)?(?:::|_)|nvjet_|splitKreduce_kernel",
            r"sm\d+_xmma_gemm_|cutlass\w*_\w*gemm",
            rf"(?:{_GPUS})_\w*(?:gemm|gemv)\w*_",
            r"gemv2[NT]_kernel|gemvNSP|gemv_|gemm(?:SN|k1|_kernel2x2)\w*",
        ),
    ),
    (
        KernelKind.LIBRARY,
        (
            r"(?:regular|vector|multi_bluestein|composite_2way)_fft",
            r"cufft|cusparse|cusolver|curand|nccl|nvshmem",
        ),
    ),
    (
        KernelKind.TORCH,
        (
            r"(?:cub|thrust)(?:::|_)|vol2col|col2vol|elementwise_kernel_with_index",
            r"\(anonymous namespace\)::(?:softmax_warp_|elementwise_kernel_with_index|conv_depthwise)",
        ),
    ),
)
_PATTERNS = tuple((kind, re.compile("|".join(patterns))) for kind, patterns in _LOOKS)
_NO_CONVOLUTION = re.compile(
    r"softmax|pooling|bn_|batch_?norm|lrn|activation|rnn|lstm|gru|op_tensor|reduce_tensor|dropout"
)
_FILL_OR_COPY = re.compile(r"\bFillFunctor<|\bdirect_copy_kernel_cuda\b")
_RETURN_TYPE = re.compile(r"^(?:void|int|float|static)\s+")


def readable(names: Iterable[str]) -> dict[str, str]:
    """Each name as CUPTI gives it → the same demangled, as the names of the build's own kernels are."""
    ordered = list(names)
    found = demangled(tuple(KernelResources(kernel=name, registers=0) for name in ordered))
    return {name: kernel.kernel for name, kernel in zip(ordered, found, strict=True)}


def kind_of(name: str, own: frozenset[str]) -> KernelKind:
    """The origin of a kernel with this readable name; `own` are the readable names of the build's kernels."""
    function = _RETURN_TYPE.sub("", name)
    if _TORCH.match(function):
        return KernelKind.TORCH
    if name in own:
        return KernelKind.OWN
    if instance := _CUTLASS.match(function):
        if re.search(_CONVOLUTION, instance[1]):
            return KernelKind.CUDNN
        return KernelKind.CUBLAS if "gemm" in instance[1] else KernelKind.UNKNOWN
    return next((kind for kind, pattern in _PATTERNS if pattern.match(function)), KernelKind.UNKNOWN)


def is_allowed(name: str, kind: KernelKind) -> bool:
    """Under the paper's rules: own work, cuBLAS, cuDNN's convolutions, constant fills and `contiguous()`.

    What is of unknown origin is told, not refused: a library's new kernel must not make an honest product cheating.
    """
    if kind is KernelKind.TORCH:
        return _FILL_OR_COPY.search(name) is not None
    if kind is KernelKind.CUDNN:
        return _NO_CONVOLUTION.search(name) is None
    return kind not in (KernelKind.TRITON, KernelKind.LIBRARY)
