"""Indices that an operator chose (argmax, sort, topk …), judged by what they choose.

Where elements tie, several indices are right. The operator is found by running the reference once more under a
dispatch mode, only after an integer output was found to differ; an output belongs to the operator whose indices it
repeats. Another index is right where it chooses an equal value: exactly equal if the operator read an input of the
task, equal within CHOSEN_UNITS if it read something computed, whose last bits no two implementations share.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from warpsmith.judge.correctness import distributions, gates
from warpsmith.judge.reference.recorder import EagerMode
from warpsmith.judge.runner import values

CHOSEN_UNITS = 4
"""Units of TF32, or of the operand's dtype where that is coarser: two computed values so near may be mistaken."""
_ALONG_DIM = frozenset(
    "argmax argmin max.dim min.dim sort sort.stable topk kthvalue median.dim nanmedian.dim mode cummax cummin".split()
)
_POOLS = {
    "max_pool2d_with_indices": 2,
    "max_pool3d_with_indices": 3,
    "adaptive_max_pool2d": 2,
    "adaptive_max_pool3d": 3,
}
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_DISTINCT = frozenset({"sort", "sort.stable", "topk"})


@dataclass(frozen=True)
class Choice:
    """One operator's choice: `indices` into `source`, along `dim`, its trailing `spatial` dimensions taken as one.

    `dim` None: into the whole of `source`, flat. `distinct`: no index may stand twice along `dim`.
    """

    source: torch.Tensor
    indices: torch.Tensor
    dim: int | None
    spatial: int
    distinct: bool
    version: int

    def chosen(self, indices: torch.Tensor) -> torch.Tensor | None:
        """The values that `indices` (shaped as its own) choose; None where they are no such choice."""
        if self.source._version != self.version:
            return None
        source, dim = self.source, self.dim
        if self.spatial:
            source, indices, dim = source.flatten(-self.spatial), indices.flatten(-self.spatial), -1
        elif dim is None or not source.dim():
            source, indices, dim = source.reshape(-1), indices.reshape(-1), 0
        elif indices.dim() < source.dim():
            indices = indices.unsqueeze(dim)
        size = source.shape[dim]
        if not bool(((indices >= 0) & (indices < size)).all()):
            return None
        if self.distinct and bool((indices.sort(dim).values.diff(dim=dim) == 0).any()):
            return None
        return source.gather(dim, indices)


class _Recorder(EagerMode):
    def __init__(self) -> None:
        super().__init__()
        self.choices: list[Choice] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = str(func).removeprefix("aten.").removesuffix(".default")
        if name in _ALONG_DIM or name in _POOLS:
            bound = {a.name: a.default_value for a in func._schema.arguments}
            bound |= dict(zip(bound, args, strict=False)) | kwargs
            if not bound.get("stable"):
                self._note(name, bound, result)
        return result

    def _note(self, name: str, bound: dict[str, Any], result: Any) -> None:
        source = bound["self"]
        indices = result if isinstance(result, torch.Tensor) else result[-1]
        self.choices.append(
            Choice(
                source=source,
                indices=indices,
                dim=bound.get("dim"),
                spatial=_POOLS.get(name, 0),
                distinct=name in _DISTINCT,
                version=source._version,
            )
        )


def observe(forward: Callable[[], object]) -> list[Choice]:
    """Every choice that `forward` makes, in order."""
    recorder = _Recorder()
    with recorder:
        forward()
    return recorder.choices


def differ(expected: object, actual: object) -> bool:
    """True where a tensor of integers differs, and nothing about its form."""
    return any(not torch.equal(e, a.to(e.device)) for _, e, a in _integer_pairs(expected, actual))


def settled(expected: object, actual: object, choices: list[Choice], inputs: list[torch.Tensor]) -> object:
    """`expected` with the indices of `actual` in place of its own wherever they choose equal values."""
    spec, tensors = values.flatten(expected)
    direct = {t.untyped_storage().data_ptr() for t in inputs}
    for i, e, a in _integer_pairs(expected, actual):
        a = a.to(e.device)
        if not torch.equal(e, a) and any(_equivalent(e, a, choice, direct) for choice in choices):
            tensors[i] = a
    return values.unflatten(spec, tensors)


def _integer_pairs(expected: object, actual: object) -> list[tuple[int, torch.Tensor, torch.Tensor]]:
    """Integer tensors of one form, by their place among all tensors; none where the structures differ."""
    try:
        (e_spec, e), (a_spec, a) = values.flatten(expected), values.flatten(actual)
    except values.UnsupportedValue:
        return []
    if e_spec != a_spec:
        return []
    pairs = enumerate(zip(e, a, strict=True))
    return [
        (i, x, y) for i, (x, y) in pairs if x.dtype in _INTEGERS and x.dtype == y.dtype and x.shape == y.shape
    ]


def _equivalent(e: torch.Tensor, a: torch.Tensor, choice: Choice, direct: set[int]) -> bool:
    own = choice.indices
    if own.numel() != e.numel() or not torch.equal(e.reshape(-1).long(), own.reshape(-1).long()):
        return False
    expected, actual = (choice.chosen(t.reshape(own.shape).long()) for t in (e, a))
    if expected is None or actual is None:
        return False
    if choice.source.untyped_storage().data_ptr() in direct or not expected.is_floating_point():
        return bool(((expected == actual) | ((expected != expected) & (actual != actual))).all())
    unit = max(distributions.TF32_UNIT, torch.finfo(expected.dtype).eps)
    return gates.compare(expected, actual, tolerance=CHOSEN_UNITS * unit).scale_gate
