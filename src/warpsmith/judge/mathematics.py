"""What torch's CPU build needs before its first threaded call gives right results."""

import torch


def settle() -> None:
    """Make this process's first call of MKL's vector mathematics from one thread.

    Made by several at once, one of them can come out with half the digits, whatever the function: errors of 5e-5 in
    tanh and of 3e-5 in acos were seen in one process of some 200, never in a second call.
    """
    torch.tanh(torch.zeros(8))
