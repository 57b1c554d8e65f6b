"""The built-in policy: a PyTorch model in, fused CUDA kernels out, needing no language model."""

from warpsmith.optimizer.policy import BuiltinPolicy

__all__ = ["BuiltinPolicy"]
