"""The torch operators that a call dispatches, by name. Both sides of the judge use this: torch only."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

FAULTING = frozenset(
    """
    binary_cross_entropy bernoulli bernoulli_ multinomial
    embedding embedding_bag _embedding_bag _embedding_bag_forward_only one_hot
    index index_put index_put_ _index_put_impl_ index_select index_add index_copy index_fill gather take
    scatter scatter_ scatter_add scatter_reduce nll_loss_forward nll_loss2d_forward
    """.split()
)
"""Operators that end a CUDA context for values or indices out of their range, where a CPU would raise."""


class OperatorCounts(TorchDispatchMode):
    """Within it, `seen` counts every dispatched operator, such as `aten.add.Tensor`."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Nothing is compiled under this mode, and torch would load its compiler for it: more than a second.
        return False

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func)
        self.seen[name] = self.seen.get(name, 0) + 1
        return func(*args, **(kwargs or {}))


def faulting_operator(run: Callable[[], object]) -> str:
    """The first operator of FAULTING that `run` dispatches; empty where there is none."""
    with OperatorCounts() as recorder, torch.no_grad():
        run()
    return next((name for name in recorder.seen if base_name(name) in FAULTING), "")


def base_name(operator: str) -> str:
    """`aten.add.Tensor` → `add`."""
    parts = operator.split(".")
    return parts[1] if len(parts) > 1 else operator
