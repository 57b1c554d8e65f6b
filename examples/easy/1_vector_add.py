"""Sum of two vectors."""

import torch
from torch import nn


class Model(nn.Module):
    """Sum of two vectors."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """a and b: (n,); the result: (n,)."""
        return a + b


n = 10_000


def get_inputs() -> list[torch.Tensor]:
    """Fresh random inputs for one call."""
    return [torch.randn(n), torch.randn(n)]


def get_init_inputs() -> list[object]:
    """The arguments of Model."""
    return []
