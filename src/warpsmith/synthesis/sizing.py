"""Sizes as people write them, and the error for a task that was not found."""

import math

_NICE = sorted({m << k for m in (1, 3, 5, 7) for k in range(22)})


class CouldNotComposeError(Exception):
    """No task was found for this number in the attempts allowed."""


def nice(size: float) -> int:
    """The nearest of 1, 3, 5 and 7 times a power of two, by ratio."""
    return min(_NICE, key=lambda n: abs(math.log(n / max(size, 0.5))))
