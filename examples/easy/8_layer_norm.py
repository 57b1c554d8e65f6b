"""LayerNorm of each row."""

import torch
from torch import nn


class Model(nn.Module):
    """LayerNorm of each row."""

    def __init__(self, cols: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(cols)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (rows, cols); the result has its shape."""
        return self.norm(x)


rows = 100
cols = 130


def get_inputs() -> list[torch.Tensor]:
    """Fresh random inputs for one call."""
    return [torch.randn(rows, cols)]


def get_init_inputs() -> list[int]:
    """The arguments of Model."""
    return [cols]
