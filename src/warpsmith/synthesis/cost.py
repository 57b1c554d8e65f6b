"""What a full-size task costs on a named GPU, told from its shapes alone: bytes over bandwidth, FLOPs over peaks.

An operator takes the longer of both, and a launch; some take several passes. Estimates choose sizes and are written
beside a row until a GPU has measured it; they are never compared with measurements.
"""

import hashlib
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from warpsmith.errors import TaskRefusedError, UsageError
from warpsmith.gpu.devices import bandwidth_gb_s
from warpsmith.gpu.peaks import peak_tflops
from warpsmith.synthesis.records import CostEstimate
from warpsmith.synthesis.tracing import Call, Trace, tensor_bytes, traced
from warpsmith.types import Precision

LAUNCH_MS = 0.004
BANDWIDTH_SHARE = 0.8
"""Of the datasheet's bandwidth that a plain kernel reaches."""
PRODUCT_SHARE = 0.6
"""Of the datasheet's peak that a product reaches."""
_PASSES = {
    "aten.sort": 16.0, "aten.topk": 8.0, "aten.kthvalue": 8.0, "aten.median": 10.0, "aten.nanmedian": 10.0,
    "aten.cumsum": 1.5, "aten.cumprod": 1.5, "aten.logcumsumexp": 3.0, "aten.cummax": 3.0, "aten.cummin": 3.0,
    "aten.native_batch_norm": 1.5, "aten.native_group_norm": 1.5, "aten._cdist_forward": 8.0,
    "aten.grid_sampler_2d": 3.0, "aten.upsample_bicubic2d": 3.0, "aten.scatter_add": 2.0, "aten.index_add": 2.0,
    "aten.renorm": 2.0, "aten.im2col": 1.5,
}  # fmt: skip
"""How many times over its bytes an operator's time is in eager, where that is more than once. Rough."""
_DEPTHWISE_PASSES = 6.0


@dataclass(frozen=True)
class CostModel:
    """The named GPU's rates."""

    gpu: str
    bytes_per_ms: float
    product_flops_per_ms: float
    conv_flops_per_ms: float

    @classmethod
    def of(cls, gpu: str) -> "CostModel":
        """Raises UsageError for a GPU whose datasheet is not known."""
        bandwidth, product = bandwidth_gb_s(gpu), peak_tflops(gpu, Precision.FP32)
        conv = peak_tflops(gpu, Precision.TF32)
        if bandwidth is None or product is None or conv is None:
            raise UsageError(f"no datasheet of a GPU named {gpu!r} is known", hint="name one such as H200")
        # PyTorch's flags untouched: matrix products in fp32, convolutions in TF32
        return cls(gpu, bandwidth * 1e6, product * 1e9, conv * 1e9)

    def estimate(self, seen: "Seen") -> CostEstimate:
        """The cost of what was seen."""
        floor_ms = (seen.input_bytes + seen.weight_bytes + seen.output_bytes) / self.bytes_per_ms
        products_ms = sum(self._product_ms(call) for call in seen.trace.calls)
        eager_ms = self.eager_ms(seen.trace.calls)
        fused_ms = max(floor_ms / BANDWIDTH_SHARE, products_ms) + LAUNCH_MS
        eager_ms = max(eager_ms, fused_ms)
        return CostEstimate(
            gpu=self.gpu, eager_ms=round(eager_ms, 4), fused_ms=round(fused_ms, 4), floor_ms=round(floor_ms, 4),
            fusion_gain=round(eager_ms / fused_ms, 3), headroom=round(eager_ms / max(floor_ms, 1e-6), 3),
            peak_bytes=seen.peak_bytes, flops=seen.trace.flops,
        )  # fmt: skip

    def eager_ms(self, calls: Iterable[Call]) -> float:
        """Of the calls one after another."""
        return sum(self._eager_ms(call) for call in calls)

    def _product_ms(self, call: Call) -> float:
        rate = self.conv_flops_per_ms if call.name == "aten.convolution" else self.product_flops_per_ms
        return call.flops / (rate * PRODUCT_SHARE)

    def _eager_ms(self, call: Call) -> float:
        moved = (call.read_bytes + call.written_bytes) / (self.bytes_per_ms * BANDWIDTH_SHARE)
        passes = _DEPTHWISE_PASSES if call.depthwise else _PASSES.get(call.name, 1.0)
        return LAUNCH_MS + max(moved * passes, self._product_ms(call))


@dataclass(frozen=True)
class Seen:
    """A task's forward on the meta device."""

    trace: Trace
    output_shape: tuple[int, ...]
    input_bytes: int
    weight_bytes: int
    output_bytes: int

    @property
    def peak_bytes(self) -> int:
        """An upper guess: all that is given, and the largest call's reads and writes once more."""
        largest = max((c.read_bytes + c.written_bytes for c in self.trace.calls), default=0)
        return self.input_bytes + self.weight_bytes + self.output_bytes + largest


def look(code: str) -> Seen:
    """Runs a task on the meta device, which allocates nothing, in this process.

    Raises TaskRefusedError where its code raises there.
    """
    try:
        module = imported(code)
        with torch.device("meta"), torch.no_grad():
            model = module.Model(*module.get_init_inputs()).eval()
            inputs = module.get_inputs()
            output, trace = traced(lambda: model(*inputs))
    except Exception as error:  # the task's own code, whatever it raises
        first = (str(error).strip().splitlines() or ["(no message)"])[0][:200]
        raise TaskRefusedError(f"shape inference: {type(error).__name__}: {first}") from error
    outputs = tensors_in(output)
    if not outputs:
        raise TaskRefusedError("its output has no tensor")
    weights = [*model.parameters(), *model.buffers()]
    return Seen(trace, tuple(outputs[0].shape), _bytes(tensors_in(inputs)), _bytes(weights), _bytes(outputs))


def imported(code: str) -> ModuleType:
    """The task's text as a module of its own."""
    name = f"warpsmith_synth_{hashlib.sha256(code.encode()).hexdigest()[:16]}"
    module = ModuleType(name)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        exec(compile(code, f"<{name}>", "exec", dont_inherit=True), module.__dict__)
    finally:
        sys.modules.pop(name, None)
    return module


def tensors_in(value: Any) -> list[torch.Tensor]:
    """All tensors in nested containers."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(tensor_bytes(t) for t in tensors)
