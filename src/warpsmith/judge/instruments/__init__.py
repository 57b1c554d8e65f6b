"""Runs under instruments: memcheck and sanitizers, Nsight Compute."""
