"""Whose fault it is that the referee found no room on the GPU: the task's, or a submission's that filled it.

Out of memory here ends a judgement as `unsupported`, which costs a policy nothing. A submission that holds most of
the GPU could end every judgement so that it is about to lose. So it is put out; what becomes free is what it held.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from warpsmith.errors import CandidateCrashedError

GIB = 1 << 30
MOST_SHARE = 0.5
"""Of the GPU. Below it there was room for a task that is not itself large."""
MOST_TIMES = 2.0
"""What the referee held at most: the reference, its results and what they are compared with. A submission works on
the same tensors."""


class GpuMemory(Protocol):
    """The GPU's memory in bytes, as this process sees it."""

    def free(self) -> int: ...

    def total(self) -> int: ...

    def peak(self) -> int:
        """What this process held at most."""
        ...


class TorchMemory:
    """By PyTorch, of its current device."""

    def free(self) -> int:
        """Free for anybody."""
        import torch

        return torch.cuda.mem_get_info()[0]

    def total(self) -> int:
        """The whole."""
        import torch

        return torch.cuda.mem_get_info()[1]

    def peak(self) -> int:
        """Of this process's tensors, and what its allocator kept beside them."""
        import torch

        return torch.cuda.max_memory_reserved()


@contextmanager
def room(memory: GpuMemory, put_out: Callable[[], object]) -> Iterator[None]:
    """Raises CandidateCrashedError for what runs out of memory in the body, where the submission held too much of it.

    `put_out` ends the submission's processes; it is called only then. Everything else goes on up as it is.
    """
    try:
        yield
    except Exception as error:
        if not _is_lack_of_memory(error):
            raise
        before = memory.free()
        put_out()
        held, peak, total = memory.free() - before, memory.peak(), memory.total()
        if not took_too_much(held, peak, total):
            raise
        raise CandidateCrashedError(
            f"the submission held {held / GIB:.3g} of the GPU's {total / GIB:.3g} GiB, and left none to check it: "
            f"the task's own check takes {peak / GIB:.3g}"
        ) from error


def took_too_much(held: int, peak: int, total: int) -> bool:
    """Whether a submission that held so many bytes is why a referee that holds `peak` at most found no room."""
    return held > MOST_SHARE * total and held > MOST_TIMES * peak


def _is_lack_of_memory(error: BaseException) -> bool:
    import torch

    return any(isinstance(e, torch.OutOfMemoryError) for e in (error, error.__cause__))
