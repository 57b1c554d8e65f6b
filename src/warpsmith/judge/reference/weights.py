"""The model's own state: what a state dict carries, what it does not, and a second set of it for a judgement."""

from collections.abc import Iterator
from typing import Any

import torch

from warpsmith.judge.reference.seeding import seed_all
from warpsmith.judge.runner import values

State = dict[str, torch.Tensor]
_STATISTICS = torch.nn.modules.batchnorm._NormBase


def copied(state: State) -> State:
    """A state dict of its own: the model's is changed in place when weights change."""
    return {name: tensor.clone() for name, tensor in state.items()}


def varied(first: State, second: State, model: torch.nn.Module, seed: int) -> State:
    """`second` with what is the same in `first` varied: parameters, and running statistics of normalisations.

    What construction sets to a constant (a norm's weight 1 and bias 0, running mean 0 and variance 1) would be the
    same in every set of weights, and need not be read at all. Signs are kept, and zeros stay small. Other buffers
    stay: they may be masks or tables.
    """
    seed_all(seed)
    learned = {name for name, _ in model.named_parameters()}
    for prefix, module in model.named_modules():
        if isinstance(module, _STATISTICS):
            learned |= {f"{prefix}.{name}".lstrip(".") for name in ("running_mean", "running_var")}
    changed = copied(second)
    for name, tensor in changed.items():
        same = name in first and first[name].shape == tensor.shape and torch.equal(first[name], tensor)
        if name in learned and same and tensor.is_floating_point():
            share = torch.rand_like(tensor)
            changed[name] = torch.where(tensor == 0, 0.1 * (share - 0.5), tensor * (0.75 + 0.5 * share))
    return changed


def unsaved(model: torch.nn.Module) -> bool:
    """True where the model holds tensors that its state dict does not carry: plain attributes, or such buffers."""
    saved = {id(t) for t in model.state_dict(keep_vars=True).values()}
    return any(id(t) not in saved for t in held(model))


def returned(output: Any, model: torch.nn.Module) -> frozenset[int]:
    """Places, among an output's tensors, of those that share memory with the model's own."""
    own = {t.untyped_storage().data_ptr() for t in held(model) if t.numel()}
    tensors = values.flatten(output)[1]
    return frozenset(i for i, t in enumerate(tensors) if t.numel() and t.untyped_storage().data_ptr() in own)


def held(model: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Every tensor of the model and its modules: parameters, buffers, plain attributes."""
    for module in model.modules():
        yield from module.parameters(recurse=False)
        yield from module.buffers(recurse=False)
        yield from (v for v in vars(module).values() if isinstance(v, torch.Tensor))
