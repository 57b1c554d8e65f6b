"""A gated activation block: bias, SiLU gate, LayerNorm and GELU, four operators that one kernel can do."""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """GELU(LayerNorm(SiLU(gate) * (x + bias)))."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(hidden) * 0.1)
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        """x and gate: (tokens, hidden), float32; the result has their shape."""
        return F.gelu(self.norm(F.silu(gate) * (x + self.bias)))


tokens = 16384
hidden = 2048


def get_inputs() -> list[torch.Tensor]:
    """Fresh random inputs for one call."""
    return [torch.randn(tokens, hidden), torch.randn(tokens, hidden)]


def get_init_inputs() -> list[int]:
    """The arguments of Model."""
    return [hidden]
