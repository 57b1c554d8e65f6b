"""What memory holds that nothing has written: NaN as a rule, zeros where that is asked for."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

ZERO_VARIABLE = "WARPSMITH_SIM_ZEROED"

UNWRITTEN = "reads memory that nothing has written: an output or a buffer is not written everywhere"


_ALLOCATING = frozenset(
    {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
)


@contextmanager
def zeros() -> Iterator[None]:
    """Fresh memory holds zeros in the body: of `torch.empty` and its like, of `cudaMalloc`, and shared memory.

    Imports torch. What a kernel computes from written memory alone does not change.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    class Zeroed(TorchDispatchMode):
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            # else torch would load its compiler for the mode
            return False

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            result = func(*args, **(kwargs or {}))
            return result.zero_() if func.overloadpacket.__name__ in _ALLOCATING else result

    before = os.environ.get(ZERO_VARIABLE)
    os.environ[ZERO_VARIABLE] = "1"
    try:
        with Zeroed():
            yield
    finally:
        if before is None:
            os.environ.pop(ZERO_VARIABLE)
        else:
            os.environ[ZERO_VARIABLE] = before
