"""Memory that two processes share."""

import os

import pytest

from warpsmith.judge.runner import memory


def test_shared_memory_cannot_be_cut_short_by_the_other_side() -> None:
    buffer = memory.new_buffer("cpu", 4096)
    _, fds = buffer.describe()
    for size in (0, 1 << 16):
        with pytest.raises(PermissionError):
            os.ftruncate(fds[0], size)
    assert buffer.bytes.sum() == 0
    buffer.close()
