"""Seeds of every generator that a model's code may draw from. Both sides of the judge use this."""

import random
import sys

import torch


def seed_all(seed: int) -> None:
    """Seed torch on every device, `random`, and numpy's global generator where numpy is loaded."""
    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % (1 << 32))
