"""Seeds of every generator that a model's code may draw from. Both sides of the judge use this."""

import random
import sys

import torch


def seed_all(seed: int) -> None:
    """Seed torch's generators of the CPU and of every GPU, `random`, and numpy's global one where it is loaded.

    The same numbers as after `torch.manual_seed`, which takes half a millisecond: for each backend that has not
    started it keeps the call and a formatted stack trace.
    """
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        for generator in torch.cuda.default_generators:
            generator.manual_seed(seed)
    elif torch.backends.cuda.is_built():
        # Kept until CUDA starts, which this must not do.
        torch.cuda.manual_seed_all(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % (1 << 32))
