"""A weight and a bias for each column."""

import torch
from torch import nn


class Model(nn.Module):
    """A weight and a bias for each column."""

    def __init__(self, cols: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(cols))
        self.bias = nn.Parameter(torch.randn(cols))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (rows, cols); the result has its shape."""
        return x * self.weight + self.bias


rows = 100
cols = 130


def get_inputs() -> list[torch.Tensor]:
    """Fresh random inputs for one call."""
    return [torch.randn(rows, cols)]


def get_init_inputs() -> list[int]:
    """The arguments of Model."""
    return [cols]
