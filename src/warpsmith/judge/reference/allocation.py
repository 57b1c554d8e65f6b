"""Stops what would allocate more than there is, before it does."""

import math
from typing import Any

import torch

from warpsmith.errors import TaskUnsupportedError
from warpsmith.judge.reference.recorder import EagerMode


class AllocationGuard(EagerMode):
    """Within it, a factory call that takes the sum of all sizes asked for above `limit_bytes` raises.

    The error is TaskUnsupportedError. Counted are operators that are given a size and no tensor.
    """

    def __init__(self, limit_bytes: int):
        super().__init__()
        self.limit_bytes = limit_bytes
        self.asked_bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not types and (size := self._size(func, args, kwargs)):
            dtype = kwargs.get("dtype") or torch.get_default_dtype()
            self.asked_bytes += math.prod(size) * dtype.itemsize
            if self.asked_bytes > self.limit_bytes:
                raise TaskUnsupportedError(
                    f"the inputs take {self.asked_bytes / 2**30:.3g} GiB and more, and"
                    f" {self.limit_bytes / 2**30:.3g} GiB can be had for one set of them",
                    hint="shrink the task, or judge it on a GPU",
                )
        return func(*args, **kwargs)

    @staticmethod
    def _size(func: Any, args: Any, kwargs: Any) -> list[int] | None:
        names = [a.name for a in func._schema.arguments]
        return (dict(zip(names, args, strict=False)) | kwargs).get("size")
