"""Warpsmith: a PyTorch model in; verified, faster CUDA kernels out."""

__version__ = "0.1.0"
