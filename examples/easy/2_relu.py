"""ReLU of a matrix."""

import torch
from torch import nn


class Model(nn.Module):
    """ReLU of a matrix."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (rows, cols); the result has its shape."""
        return torch.relu(x)


rows = 100
cols = 130


def get_inputs() -> list[torch.Tensor]:
    """Fresh random inputs for one call."""
    return [torch.randn(rows, cols)]


def get_init_inputs() -> list[object]:
    """The arguments of Model."""
    return []
