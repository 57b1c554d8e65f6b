"""A small matrix product."""

import torch
from torch import nn


class Model(nn.Module):
    """A small matrix product."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """a: (m, k), b: (k, n); the result: (m, n)."""
        return a @ b


m = 70
k = 50
n = 90


def get_inputs() -> list[torch.Tensor]:
    """Fresh random inputs for one call."""
    return [torch.randn(m, k), torch.randn(k, n)]


def get_init_inputs() -> list[object]:
    """The arguments of Model."""
    return []
