"""Sum of each row."""

import torch
from torch import nn


class Model(nn.Module):
    """Sum of each row."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (rows, cols); the result: (rows,)."""
        return x.sum(dim=1)


rows = 100
cols = 130


def get_inputs() -> list[torch.Tensor]:
    """Fresh random inputs for one call."""
    return [torch.randn(rows, cols)]


def get_init_inputs() -> list[object]:
    """The arguments of Model."""
    return []
