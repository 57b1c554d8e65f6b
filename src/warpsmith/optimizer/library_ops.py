"""Operators that become library steps, by name."""

from __future__ import annotations

from collections.abc import Callable

from warpsmith.optimizer.conv import CONVOLUTIONS
from warpsmith.optimizer.gemm import GEMMS

LIBRARY: dict[str, Callable[..., object]] = {**GEMMS, **CONVOLUTIONS}
