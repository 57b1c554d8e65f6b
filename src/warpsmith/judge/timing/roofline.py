"""What the reference's products cost at a GPU's peaks, and where a candidate stands beside that.

Information only: a candidate that algebra spared most of the products attains more than any peak, rightly.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree
from torch.utils.flop_counter import flop_registry

from warpsmith.gpu.devices import GpuInfo
from warpsmith.gpu.peaks import peak_tflops
from warpsmith.judge.reference.recorder import EagerMode
from warpsmith.types import Bound, ByteFloor, Precision, ProductWork, Roofline, TimeStats

_ATEN = torch.ops.aten
_BY_CUDNN = frozenset(
    {
        _ATEN.convolution,
        _ATEN._convolution,
        _ATEN.cudnn_convolution,
        _ATEN._slow_conv2d_forward,
        _ATEN._cudnn_rnn,
    }
)
"""Operators whose TF32 is cuDNN's switch; that of all others is the switch of matrix products."""
_OF_DTYPE = {
    torch.float64: Precision.FP64,
    torch.float32: Precision.FP32,
    torch.bfloat16: Precision.BF16,
    torch.float16: Precision.FP16,
}


@dataclass(frozen=True)
class Traffic:
    """What a call of the reference must at least read and write, and the FLOPs of its products by precision.

    `flops` is None where they cannot be counted.
    """

    read_bytes: int
    written_bytes: int
    flops: Mapping[Precision, int] | None = None


class ProductCount(EagerMode):
    """Within it, FLOPs of matrix products, convolutions, attention and cuDNN's recurrent layers add up.

    By PyTorch's own formulas (`torch.utils.flop_counter`, whose own mode would load the compiler: two seconds).
    """

    def __init__(self) -> None:
        super().__init__()
        self._formulas = {_ATEN._cudnn_rnn: cudnn_rnn_flops, **flop_registry}
        self._flops: dict[Precision, int] = {}
        self._unknown = False

    @property
    def flops(self) -> dict[Precision, int] | None:
        """By precision; None where a product was in a dtype that has no peak here (complex, integers, 8 bits)."""
        return None if self._unknown else dict(self._flops)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        packet = getattr(func, "_overloadpacket", None)
        formula = self._formulas.get(packet)
        if formula is None:
            if isinstance(func, torch._ops.OpOverload):
                # under inference mode what is made of products arrives whole
                with self:
                    parts = func.decompose(*args, **kwargs)
                if parts is not NotImplemented:
                    return parts
            return func(*args, **kwargs)
        output = func(*args, **kwargs)
        flops = int(formula(*args, **kwargs, out_val=output))
        if flops:
            self._add(packet, args, flops)
        return output

    def _add(self, packet: Any, args: Any, flops: int) -> None:
        dtype = next(t.dtype for t in _pytree.tree_leaves(args) if isinstance(t, torch.Tensor))
        precision = _OF_DTYPE.get(dtype)
        if precision is None:
            self._unknown = True
            return
        if precision is Precision.FP32 and _tf32(cudnn=packet in _BY_CUDNN):
            precision = Precision.TF32
        self._flops[precision] = self._flops.get(precision, 0) + flops


def cudnn_rnn_flops(given: Any, weights: Any, *_: Any, out_val: Any = None, **__: Any) -> int:
    """FLOPs of a recurrent layer run by cuDNN: each step of each sequence meets every weight matrix once."""
    steps = given.numel() // given.shape[-1]
    return 2 * steps * sum(w.numel() for w in weights if w.dim() == 2)


def roofline(
    traffic: Traffic, floor: ByteFloor | None, candidate: TimeStats, gpu: GpuInfo
) -> Roofline | None:
    """Where a candidate with these times stands; None where a peak or the bandwidth is not known."""
    if floor is None or traffic.flops is None:
        return None
    peaks = {precision: peak_tflops(gpu.name, precision) for precision in traffic.flops}
    if None in peaks.values():
        return None
    work = tuple(
        ProductWork(precision=precision, flops=flops, peak_tflops=peaks[precision])
        for precision, flops in sorted(traffic.flops.items())
    )
    flops, moved = sum(w.flops for w in work), floor.read_bytes + floor.written_bytes
    compute_ms = sum(w.flops / w.peak_tflops for w in work) / 1e9
    limit_ms = max(compute_ms, floor.floor_ms)
    return Roofline(
        work=work, flops=flops, traffic_bytes=moved, intensity=flops / max(1, moved),
        compute_ms=compute_ms, memory_ms=floor.floor_ms,
        bound=Bound.COMPUTE if compute_ms > floor.floor_ms else Bound.MEMORY,
        attained_tflops=flops / candidate.median_ms / 1e9, attained_gb_s=moved / candidate.median_ms / 1e6,
        share=limit_ms / candidate.median_ms,
    )  # fmt: skip


def _tf32(*, cudnn: bool) -> bool:
    """PyTorch's switch as it stands now."""
    backends = torch.backends
    try:
        return (backends.cudnn if cudnn else backends.cuda.matmul).allow_tf32
    except RuntimeError:
        # set by its newer name, and so the older one has no answer
        return (backends.cudnn.conv if cudnn else backends.cuda.matmul).fp32_precision == "tf32"
