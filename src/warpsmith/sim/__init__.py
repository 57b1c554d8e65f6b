"""The simulator device: CUDA C++ and PyTorch code written for CUDA, run on the CPU for correctness only."""
