"""What a forward calls, seen on the meta device: aten operators, bytes moved, FLOPs. Nothing is allocated."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

_FREE = frozenset({
    "aten.empty", "aten.detach", "aten.lift_fresh", "aten.empty_like", "aten.sym_size", "aten.empty_strided",
})  # fmt: skip


@dataclass(frozen=True)
class Call:
    """One aten operator that is no view."""

    name: str
    """`aten.convolution`"""
    read_bytes: int
    written_bytes: int
    flops: int
    """A multiply-add counts as two."""
    depthwise: bool = False
    """A convolution with one input channel a group."""
    steps: int = 1
    """Sizes along the last dimension of what is read: what sorting and scanning cost more for."""


@dataclass
class Trace:
    """The calls of one forward, in order."""

    calls: list[Call] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(call.name for call in self.calls)

    @property
    def flops(self) -> int:
        return sum(call.flops for call in self.calls)


class _Tracer(TorchDispatchMode):
    def __init__(self, trace: Trace):
        super().__init__()
        self._trace = trace

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = str(func.overloadpacket)
        if not func.is_view and name not in _FREE:
            read = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
            written = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
            self._trace.calls.append(Call(
                name, sum(map(tensor_bytes, read)), sum(map(tensor_bytes, written)),
                _flops(func, args, kwargs, result), _is_depthwise(name, args),
                read[0].shape[-1] if read and read[0].dim() else 1,
            ))  # fmt: skip
        return result


def traced(call: Callable[[], Any]) -> tuple[Any, Trace]:
    """What `call` gives, and the operators that it called."""
    trace = Trace()
    with torch.no_grad(), _Tracer(trace):
        result = call()
    return result, trace


def tensor_bytes(t: torch.Tensor) -> int:
    """Bytes of its elements, an expanded dimension counted once."""
    count = t.element_size()
    for n, stride in zip(t.shape, t.stride(), strict=True):
        count *= n if stride else min(n, 1)
    return count


def _flops(func: Any, args: Any, kwargs: Any, result: Any) -> int:
    count = flop_registry.get(func.overloadpacket)
    if count is None:
        return 0
    try:
        return int(count(*args, **(kwargs or {}), out_val=result))
    except (
        TypeError,
        ValueError,
        IndexError,
        AssertionError,
    ):  # a form of the call that torch does not count
        return 0


def _is_depthwise(name: str, args: Any) -> bool:
    return name == "aten.convolution" and len(args) > 8 and args[8] > 1 and args[8] == args[0].shape[1]
