"""A forward in float64, also where the task's code asks for less: what errors are measured against.

Every operator is seen as it is dispatched. A dtype that it is asked for and that is narrower becomes float64, and so
does every tensor that it reads, so `zeros(..., dtype=torch.float32)`, `.float()`, `.half()` and tensors of the
module's own change nothing. What is drawn at random is drawn in the dtype that the task would have drawn it in.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree

from warpsmith.judge.correctness.distributions import memory_key
from warpsmith.judge.reference import weights
from warpsmith.judge.reference.recorder import EagerMode

WIDE = {
    torch.float32: torch.float64,
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
    torch.complex32: torch.complex128,
}


class NarrowMemoryError(Exception):
    """The task writes results into memory that stays narrower than float64."""


class Promotion(EagerMode):
    """Within it everything is computed in float64 on `device`, whatever device the task names.

    `default`: the dtype that random numbers are drawn in.
    """

    def __init__(self, default: torch.dtype, device: torch.device):
        super().__init__()
        self._default, self._device = default, device

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = list(args), dict(kwargs or {})
        if torch.Tag.nondeterministic_seeded in func.tags:
            return self._drawn(func, args, kwargs)
        schema = func._schema
        if schema.is_mutable:
            self._require_wide(func, args, kwargs)
        keep_memory = schema.is_mutable or any(r.alias_info is not None for r in schema.returns)
        args, kwargs = _pytree.tree_map(self._moved, (args, kwargs))
        if not keep_memory:
            args, kwargs = _pytree.tree_map(widened, (args, kwargs))
        found = func(*args, **kwargs)
        # Not of a view or a change in place: what comes out must stay the memory that it is.
        return found if keep_memory else _pytree.tree_map(widened, found)

    def _moved(self, value: Any) -> Any:
        if isinstance(value, torch.device) and value.type != self._device.type:
            return self._device
        return wide_dtype(value)

    def _drawn(self, func: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        names = {a.name for a in func._schema.arguments}
        if func._schema.is_mutable:
            target = args[0]
            if not isinstance(target, torch.Tensor) or target.dtype != torch.float64:
                return func(*args, **kwargs)
            drawn = torch.empty_like(target, dtype=self._default)
            func(drawn, *args[1:], **kwargs)
            return target.copy_(drawn)
        if "dtype" in names and kwargs.get("dtype") is None:
            kwargs["dtype"] = self._default
        return _pytree.tree_map(widened, func(*args, **kwargs))

    @staticmethod
    def _require_wide(func: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
        """What is written must be wide already: nothing can be promoted there without losing the memory."""
        given = dict(zip((a.name for a in func._schema.arguments), args, strict=False)) | kwargs
        for argument in func._schema.arguments:
            written = argument.alias_info is not None and argument.alias_info.is_write
            for t in _pytree.tree_leaves(given.get(argument.name)) if written else ():
                if isinstance(t, torch.Tensor) and t.dtype in WIDE:
                    raise NarrowMemoryError(f"{func} writes into {t.dtype}")


def wide_dtype(value: Any) -> Any:
    """A dtype narrower than float64 as float64 (complex64 as complex128); anything else unchanged."""
    return WIDE.get(value, value) if isinstance(value, torch.dtype) else value


def widened(value: Any) -> Any:
    """The same, of tensors too."""
    if isinstance(value, torch.Tensor):
        return value.to(WIDE[value.dtype]) if value.dtype in WIDE else value
    return wide_dtype(value)


def widened_model(model: torch.nn.Module, device: torch.device) -> torch.nn.Module:
    """A copy in float64 on `device`: parameters, buffers, and tensors that are plain attributes."""
    known: dict[int, Any] = {}
    for tensor in weights.held(model):
        wide = widened(tensor.detach().to(device))
        own = wide.clone() if wide.data_ptr() == tensor.data_ptr() else wide
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        known[id(tensor)] = torch.nn.Parameter(own, requires_grad=False) if is_parameter else own
    return copy.deepcopy(model, known)


def widened_inputs(tensors: Sequence[torch.Tensor], device: torch.device) -> list[torch.Tensor]:
    """Copies in float64 on `device`; what is passed twice as one tensor stays one."""
    done: dict[tuple[Any, ...], torch.Tensor] = {}
    for t in tensors:
        key = memory_key(t)
        if key not in done:
            wide = widened(t.to(device))
            done[key] = wide.clone() if wide.data_ptr() == t.data_ptr() else wide
    return [done[memory_key(t)] for t in tensors]


def operations(run: Callable[[], object]) -> float:
    """Multiplications and additions that `run` does in matrix products, convolutions and attention."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        run()
    return float(counter.get_total_flops())


@contextmanager
def promotion(default: torch.dtype, device: torch.device) -> Iterator[None]:
    """Everything inside is computed in float64, Python numbers too. The default dtype is put back afterwards."""
    kept = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with Promotion(default, device):
            yield
    finally:
        torch.set_default_dtype(kept)
