"""A candidate's process whose calls read inputs that are allocations of their own.

As `warpsmith.judge.runner.inside`, whose inputs lie in one shared mapping: an access beyond one of them lands in the
next, and no instrument can tell. Copied before and after what is observed, so that copies are none of its operators.
"""

import torch

from warpsmith.judge.correctness.distributions import memory_key
from warpsmith.judge.runner import inside, values


class OwnInputs(inside.Runner):
    """Copies inputs before each bracket, and what it changed of them back."""

    _shared: list | None = None

    def buffers(self, request: dict, fds: list[int]) -> dict:
        self._shared = None
        return super().buffers(request, fds)

    def arm(self, request: dict) -> dict:
        if self._shared is None:
            self._shared = self.inputs
        self.inputs = [_copied(inputs) for inputs in self._shared]
        return super().arm(request)

    def describe(self, request: dict) -> dict:
        reply = super().describe(request)
        for shared, own in zip(self._shared or [], self.inputs, strict=True):
            for to, changed in zip(values.flatten(shared)[1], values.flatten(own)[1], strict=True):
                to.copy_(changed)
        self._synchronize()
        return reply


def _copied(inputs: list) -> list:
    """What was one tensor stays one."""
    spec, tensors = values.flatten(inputs)
    copies: dict[tuple, torch.Tensor] = {}
    for tensor in tensors:
        copies.setdefault(memory_key(tensor), tensor.clone())
    return values.unflatten(spec, [copies[memory_key(tensor)] for tensor in tensors])


if __name__ == "__main__":
    raise SystemExit(inside.main(OwnInputs))
