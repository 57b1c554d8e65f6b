"""A diagonal matrix times a matrix: the diagonal need never be built, each row is only scaled."""

import torch
from torch import nn


class Model(nn.Module):
    """diag(a) @ b."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """a: (n,), b: (n, m), float32; the result is (n, m)."""
        return torch.diag(a) @ b


n = 4096
m = 4096


def get_inputs() -> list[torch.Tensor]:
    """Fresh random inputs for one call."""
    return [torch.randn(n), torch.randn(n, m)]


def get_init_inputs() -> list[int]:
    """The arguments of Model: none."""
    return []
