"""The torch operators that a call dispatches, by name. Both sides of the judge use this: torch only."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from warpsmith.judge.evidence.operator_names import FAULTING, base_name


class EagerMode(TorchDispatchMode):
    """A dispatch mode under which nothing is compiled."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Else torch would load its compiler for the mode: more than a second.
        return False


class OperatorCounts(EagerMode):
    """Within it, `seen` counts every dispatched operator, such as `aten.add.Tensor`."""

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
