"""A submission that fills the GPU is told from a task that is too large for it."""

from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.errors import CandidateCrashedError, TaskUnsupportedError, WrongResultError
from warpsmith.judge.room import GIB, room, took_too_much


@dataclass
class Gpu:
    """140 GiB, of which the submission holds `held` until it is put out, and the referee held `own` at most."""

    held: int
    own: int
    out: list[bool] = field(default_factory=list)

    def free(self) -> int:
        return self.total() - self.own - (0 if self.out else self.held)

    def total(self) -> int:
        return 140 * GIB

    def peak(self) -> int:
        return self.own

    def put_out(self) -> None:
        self.out.append(True)


def lack() -> torch.OutOfMemoryError:
    return torch.OutOfMemoryError("CUDA out of memory")


def test_who_filled_the_gpu_has_crashed() -> None:
    gpu = Gpu(held=130 * GIB, own=9 * GIB)
    match = r"held 130 of the GPU's 140 GiB.* check takes 9$"
    with pytest.raises(CandidateCrashedError, match=match), room(gpu, gpu.put_out):
        raise lack()
    assert gpu.out == [True]


def test_so_it_is_where_the_tasks_code_ran_out() -> None:
    gpu = Gpu(held=130 * GIB, own=9 * GIB)
    with pytest.raises(CandidateCrashedError), room(gpu, gpu.put_out):
        raise TaskUnsupportedError("forward needs more memory") from lack()


@pytest.mark.parametrize(("held", "own"), [(60, 79), (69, 10), (72, 60)])
def test_a_task_that_is_too_large_stays_one(held: int, own: int) -> None:
    gpu = Gpu(held=held * GIB, own=own * GIB)
    with pytest.raises(torch.OutOfMemoryError), room(gpu, gpu.put_out):
        raise lack()


@pytest.mark.parametrize(
    "error", [WrongResultError("off"), TaskUnsupportedError("needs a hub"), KeyboardInterrupt()]
)
def test_nothing_else_puts_it_out(error: BaseException) -> None:
    gpu = Gpu(held=130 * GIB, own=GIB)
    with pytest.raises(type(error)), room(gpu, gpu.put_out):
        raise error
    assert gpu.out == []


@given(own=st.integers(1, 140 * GIB), times=st.floats(0.1, 2.0))
def test_who_works_on_the_tasks_own_tensors_is_never_blamed(own: int, times: float) -> None:
    assert not took_too_much(int(own * times), own, 140 * GIB)
