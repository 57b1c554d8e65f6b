"""Whether a small step of a task's inputs makes its output jump, told at sizes that a CPU runs.

At full size some element of millions lies so near a jump that its last bit decides; of thousands none does. So the
step is as many times longer as there are fewer elements, and a shorter one tells what a smooth function does over it.
"""

from typing import Any

import torch

from warpsmith.errors import TaskRefusedError
from warpsmith.judge.reference.model import Reference
from warpsmith.judge.runner import values

STEP = 2.0**-10
"""Relative; a thousand times what admission tries at full size, where a thousand times more elements are."""
_PARTS = 8
"""The shorter step is such a part of it."""
_JUMP = 0.1
"""Of the output's scale. Of tasks that an H200 ran at full size, 196 without jumps came to 0.063 at most, 8 with one
to 0.12 at least."""


def jumps(reference: Reference, model: torch.nn.Module, inputs: list[Any], *, seed: int) -> bool:
    """Whether the output after a step is far from what a step of an eighth foretells, on either side.

    Integers in the output are left out, since an index may change for good reasons; so is a step on which a value is
    no longer finite: it left what a function takes.
    """
    spec, tensors = values.flatten(inputs)

    def outputs(step: float) -> list[torch.Tensor]:
        moved = [t * (1 + step) if t.is_floating_point() else t.clone() for t in tensors]
        found = reference.forward(model, values.unflatten(spec, moved), seed=seed)
        return [t.double() for t in values.flatten(found)[1] if t.is_floating_point()]

    here = outputs(0.0)
    for step in (STEP, -STEP):
        try:
            there, between = outputs(step), outputs(step / _PARTS)
        except TaskRefusedError:
            continue  # values that its code does not take
        if any(map(_jumped, here, there, between)):
            return True
    return False


def _jumped(here: torch.Tensor, there: torch.Tensor, between: torch.Tensor) -> bool:
    if not here.numel() or here.shape != there.shape or not bool((there - between).isfinite().all()):
        return False
    scale = here.abs().clamp_min(here.square().mean().sqrt())
    return bool(((here + _PARTS * (between - here) - there).abs() > _JUMP * scale).any())
