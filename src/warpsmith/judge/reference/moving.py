"""Weights that change between two brackets without a word: parts of them are moved within their own tensors.

What a submission keeps of its weights from one call to the next (folded, repacked, cast) is then wrong, whatever it
is kept by: a version counter, an object, a hook on `load_state_dict`. Values stay the tensor's own, so that nothing
overflows that did not before. Both sides of the judge use this.
"""

import random
from collections.abc import Sequence

import torch

Move = tuple[str, int, int, int]
"""Name of a parameter, and of its elements in a row: the first, how many, and by how many they are rolled."""
MOST = 8
"""Parameters moved at once: launches before each bracket."""
MOST_BYTES = 64 << 20
"""Of all of them, so that large models cost no more: 0.2 ms on a GPU."""


def drawn(model: torch.nn.Module, seed: int) -> tuple[Move, ...]:
    """Moves of up to MOST floating-point parameters of `model`; the large ones are preferred. Empty without any."""
    draw = random.Random(seed)
    tied: dict[tuple[int, int], list[str]] = {}
    held: dict[tuple[int, int], torch.Tensor] = {}
    for name, tensor in model.named_parameters(remove_duplicate=False):
        if tensor.is_floating_point() and tensor.is_contiguous() and tensor.numel() > 1:
            key = tensor.data_ptr(), tensor.numel()
            tied.setdefault(key, []).append(name)
            held[key] = tensor
    # Half by size, half whatever their size: what is told by a small one must not stand for all.
    by_size = sorted(held, key=lambda key: -(draw.random() ** (1 / held[key].numel())))
    anyone = draw.sample(list(held), len(held))
    wanted = dict.fromkeys([*by_size[: MOST // 2], *anyone[: draw.randint(0, MOST // 2)]])
    moves: list[Move] = []
    left = MOST_BYTES
    for key in wanted:
        tensor = held[key]
        count = min(tensor.numel(), left // tensor.element_size())
        if count > 1:
            start = draw.randint(0, tensor.numel() - count)
            moves += [(name, start, count, draw.randint(1, count - 1)) for name in tied[key][:1]]
            moves += [(name, *moves[-1][1:]) for name in tied[key][1:]]
            left -= count * tensor.element_size()
    return tuple(moves)


class MovingWeights:
    """The tensors of one model, by name; at most one set of moves is in force."""

    def __init__(self, model: torch.nn.Module):
        state = model.state_dict(keep_vars=True)
        # `.data`: the version counter, by which a change could be noticed, stays.
        self._tensors = {name: t.data for name, t in state.items() if isinstance(t, torch.Tensor)}
        self._kept: list[tuple[torch.Tensor, int, torch.Tensor]] = []
        self._moves: tuple[Move, ...] = ()

    def use(self, moves: Sequence[Move]) -> None:
        """Put back what was moved before, then move. Raises KeyError for a name that the model lacks."""
        moves = tuple((name, start, count, by) for name, start, count, by in moves)
        if moves == self._moves:
            return
        for tensor, start, before in self._kept:
            _write(tensor, start, before)
        self._kept = [
            (self._tensors[name], start, self._tensors[name].reshape(-1)[start : start + count].clone())
            for name, start, count, _ in moves
        ]
        # Copied before any is written: two names may be one tensor.
        for (tensor, start, before), (*_, by) in zip(self._kept, moves, strict=True):
            _write(tensor, start, before.roll(by))
        self._moves = moves

    def forget(self) -> None:
        """The weights were loaded anew: nothing is moved."""
        self._kept, self._moves = [], ()


def _write(tensor: torch.Tensor, start: int, part: torch.Tensor) -> None:
    """Elements from `start` on, in the order of indices, whatever the tensor's own order in memory."""
    flat = tensor.reshape(-1)
    flat[start : start + part.numel()].copy_(part)
    if not tensor.is_contiguous():
        tensor.copy_(flat.view(tensor.shape))
