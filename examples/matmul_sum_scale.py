"""A matrix product of which only the scaled row sums are wanted: a matrix-vector product does it."""

import torch
from torch import nn


class Model(nn.Module):
    """sum(x @ weight.T, dim=1) * scale."""

    def __init__(self, in_features: int, out_features: int, scale: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_features, in_features))
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (batch, in_features), float32; the result is (batch, 1)."""
        return torch.sum(torch.matmul(x, self.weight.T), dim=1, keepdim=True) * self.scale


batch = 1024
in_features = 8192
out_features = 8192


def get_inputs() -> list[torch.Tensor]:
    """Fresh random inputs for one call."""
    return [torch.randn(batch, in_features)]


def get_init_inputs() -> list[int | float]:
    """The arguments of Model."""
    return [in_features, out_features, 0.75]
