"""Other distributions of a task's inputs, and other forms of them: what a kernel may have been fitted to.

Only tensors drawn as floats are changed: finite, not integers throughout (labels, masks), not overlapping with
themselves or with each other. Every change is a function of the element alone and leaves exact zeros alone, so
that triangular, symmetric, sparse and padded inputs stay what they are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from warpsmith.judge.correctness import moments
from warpsmith.judge.runner import layout, values

ALREADY_CENTRED = 0.1
"""A mean below this share of the spread is zero already."""
TF32_UNIT = 2.0**-10
_Change = Callable[[torch.Tensor, moments.Summary], torch.Tensor]


@dataclass(frozen=True)
class Distribution:
    """One way to change inputs. `change` maps a block of a tensor, given the whole tensor's statistics."""

    name: str
    change: _Change
    applies: Callable[[moments.Summary], bool] = lambda summary: True

    def apply(self, inputs: list[Any]) -> list[Any] | None:
        """The changed inputs, the originals untouched; None where nothing is there to change."""
        spec, tensors = values.flatten(inputs)
        done: dict[tuple[Any, ...], torch.Tensor] = {}
        storages = [t.untyped_storage().data_ptr() for t in {memory_key(t): t for t in tensors}.values()]
        for i, tensor in enumerate(tensors):
            key = memory_key(tensor)
            if key not in done and storages.count(key[0]) == 1:
                summary = _drawn_as_floats(tensor)
                if summary is not None and self.applies(summary):
                    done[key] = self._changed(tensor, summary)
            tensors[i] = done.get(key, tensor)
        return values.unflatten(spec, tensors) if done else None

    def _changed(self, tensor: torch.Tensor, summary: moments.Summary) -> torch.Tensor:
        changed = torch.empty_like(tensor)
        for block in moments.blocks(tensor.shape, moments.chunk(tensor.device)):
            part = tensor[block]
            changed[block] = torch.where(part == 0, part, self.change(part, summary))
        return changed


def memory_key(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Equal for two tensors that are the same memory seen in the same way. Its first part names the storage."""
    storage = tensor.untyped_storage().data_ptr()
    return storage, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def _drawn_as_floats(tensor: torch.Tensor) -> moments.Summary | None:
    """Statistics over the elements that are not zero; None for a tensor that must stay as drawn."""
    if not tensor.is_floating_point() or not tensor.numel() or not layout.is_dense(tensor):
        return None
    summary = moments.summary(tensor)
    if summary.finite < summary.count or summary.largest == 0:
        return None
    nonzero, integral = 0, True
    for block in moments.blocks(tensor.shape, moments.chunk(tensor.device)):
        part = tensor[block]
        nonzero += int((part != 0).sum())
        integral = integral and torch.equal(part, part.trunc())
    if integral:
        return None
    share = nonzero / summary.count
    return moments.Summary(nonzero, nonzero, summary.mean / share, summary.rms / share**0.5, summary.largest)


def _factor(dtype: torch.dtype) -> float:
    # float16 ends at 65504, and loses its precision below 6e-5.
    return 16.0 if dtype == torch.float16 else 1e3


def _edges(x: torch.Tensor, s: moments.Summary) -> torch.Tensor:
    """Zeros of both signs, denormals, ties, and a few large elements among ordinary ones."""
    size = (x / s.rms).abs()
    out = (x / s.rms * 8).round() * (s.rms / 8)
    out = torch.where(size > 1.7, x * 16, out)
    out = torch.where(size < 0.20, torch.finfo(x.dtype).tiny / 4, out)
    out = torch.where(size < 0.15, -0.0, out)
    return torch.where(size < 0.10, 0.0, out).to(x.dtype)


DISTRIBUTIONS = (
    Distribution(
        "zero-mean", lambda x, s: x - s.mean, lambda s: abs(s.mean) > ALREADY_CENTRED * max(s.std, 1e-30)
    ),
    Distribution("negative", lambda x, s: -x.abs()),
    Distribution("shifted", lambda x, s: x + 2 * s.rms),
    Distribution("small", lambda x, s: x / _factor(x.dtype)),
    Distribution("large", lambda x, s: x * _factor(x.dtype)),
    Distribution("edge values", _edges),
)


def jitter(tensor: torch.Tensor) -> torch.Tensor:
    """Every float moved up or down by half to one unit of TF32, or of its own dtype where that is coarser."""
    unit = max(TF32_UNIT, torch.finfo(tensor.dtype).eps)
    # Steps of one size would often cancel where a few terms do.
    steps = torch.rand_like(tensor)
    steps = torch.where(steps < 0.5, steps - 1, steps)
    return tensor * (1 + unit * steps)


def jittered(inputs: list[Any]) -> list[Any]:
    """The inputs with every tensor of floats jittered."""
    spec, tensors = values.flatten(inputs)
    moved: dict[tuple[Any, ...], torch.Tensor] = {}
    for i, tensor in enumerate(tensors):
        key = memory_key(tensor)
        if tensor.is_floating_point() and key not in moved:
            moved[key] = jitter(tensor)
        tensors[i] = moved.get(key, tensor)
    return values.unflatten(spec, tensors)


def smaller_batches(inputs: list[Any]) -> list[tuple[str, Callable[[list[Any]], list[Any]]]]:
    """Ways to make the leading dimension smaller and odd, the likeliest first: of every tensor that has it, of the
    first alone. None where the first tensor's leading dimension is 1."""
    tensors = values.flatten(inputs)[1]
    first = next((t for t in tensors if t.dim() and t.is_floating_point()), None)
    if first is None or first.shape[0] < 2:
        return []
    old = first.shape[0]
    new = (old // 2) | 1 if old > 3 else old - 1
    name = f"shape {(new, *first.shape[1:])}"

    def cut(inputs: list[Any], alone: bool) -> list[Any]:
        spec, found = values.flatten(inputs)
        place = next(i for i, t in enumerate(found) if t.dim() and t.is_floating_point())
        for i, t in enumerate(found):
            if t.dim() and t.shape[0] == old and (i == place or not alone):
                found[i] = t[:new].clone()
        return values.unflatten(spec, found)

    return [(name, lambda x: cut(x, False)), (name, lambda x: cut(x, True))]


def transposed(inputs: list[Any]) -> list[Any] | None:
    """The same values with the first and last dimension of every matrix swapped in memory; None without any."""
    spec, tensors = values.flatten(inputs)
    changed = False
    for i, t in enumerate(tensors):
        if t.dim() >= 2 and t.shape[0] > 1 and t.shape[-1] > 1 and layout.is_dense(t):
            tensors[i] = t.transpose(0, -1).contiguous().transpose(0, -1)
            changed = True
    return values.unflatten(spec, tensors) if changed else None
