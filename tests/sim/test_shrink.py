"""Derived tasks: which sizes change, and what stays true of them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.errors import TaskUnreadableError, TaskUnsupportedError
from warpsmith.sim.shrink import candidates, measure, measure_elements, shrink
from warpsmith.sim.sizes import scaled_sizes, size_literals
from warpsmith.types import Task, TaskSource

LINEAR = """\
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, width, hidden, heads):
        super().__init__()
        self.heads = heads
        self.up = nn.Linear(width, hidden)

    def forward(self, x):
        return self.up(x).view(x.shape[0], self.heads, -1).sum(1)

batch = 2048
width, hidden = 1024 * 2, 8192
heads = 12 // 3
scale_seed = 4096

def get_inputs():
    return [torch.rand(batch, width)]

def get_init_inputs():
    return [width, hidden, heads]
"""
POINTWISE = """\
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) + {bias}

shape = ({rows}, 32770)  # größer als nötig

def get_inputs():
    return [torch.rand(*shape)]

def get_init_inputs():
    return []
"""


def task(code: str) -> Task:
    return Task(name="t", code=code)


def test_literals_are_those_of_sizes() -> None:
    found = [(literal.value, literal.constructs) for literal in size_literals(LINEAR)]
    assert found == [(2048, False), (2048, True), (8192, True), (4, True)]


def test_shrunk_task_fits_runs_and_says_where_it_comes_from() -> None:
    original = task(LINEAR)
    small = shrink(original, max_elements=1 << 16)
    assert small.source is TaskSource.DERIVED and small.derived_from == original.task_hash
    assert small.task_hash != original.task_hash
    size = measure(small.code)
    assert size.forward and size.largest <= 1 << 16
    assert "scale_seed = 4096" in small.code and "heads = 12 // 3" in small.code
    batch, _, hidden, _ = [literal.value for literal in size_literals(small.code)]
    assert batch & (batch - 1) == 0 and hidden % batch == 0


def test_a_task_that_fits_is_returned_itself() -> None:
    small = task(POINTWISE.format(rows=2, bias=1))
    assert shrink(small) is small


def test_awkward_sizes_stay_awkward_and_other_text_stays() -> None:
    small = shrink(task(POINTWISE.format(rows=4096, bias=32770)))
    rows, columns = [literal.value for literal in size_literals(small.code)]
    assert rows * columns <= 1 << 20 and columns % 4 == 2 and rows & (rows - 1) == 0
    assert "+ 32770" in small.code and "# größer als nötig" in small.code


def test_batch_alone_shrinks_where_the_model_fixes_the_rest() -> None:
    code = LINEAR.replace("self.up = nn.Linear(width, hidden)", "self.up = nn.Linear(2048, 8192)")
    small = shrink(task(code), max_elements=1 << 20)
    assert measure(small.code).forward
    assert "width, hidden = 1024 * 2, 8192" in small.code


def test_candidates_get_smaller() -> None:
    sizes = [
        measure_elements(candidate.code) for candidate in candidates(task(POINTWISE.format(rows=512, bias=0)))
    ]
    assert len(sizes) > 10
    assert sizes[0] > sizes[-1]


def test_what_cannot_shrink_is_unsupported_and_what_cannot_be_read_unreadable() -> None:
    code = POINTWISE.format(rows=16, bias=0).replace("*shape", "int('4096'), int('4096')")
    with pytest.raises(TaskUnsupportedError, match="too large for the simulator"):
        shrink(task(code))
    with pytest.raises(TaskUnsupportedError, match="cannot be measured"):
        shrink(task("raise ValueError('no')\n"))
    with pytest.raises(TaskUnreadableError, match="line 1"):
        shrink(task("def ("))


@given(
    st.lists(st.integers(1, 1 << 16), min_size=1, max_size=6), st.integers(1, 24), st.sampled_from([16, 8, 4])
)
def test_sizes_keep_their_relations(values: list[int], halvings: int, smallest: int) -> None:
    sizes = scaled_sizes(values, 2 ** (-halvings / 2), smallest=smallest)
    for value in values:
        size = sizes[value]
        assert 1 <= size <= value
        assert size == value or (value > 16 and size >= smallest)
        assert math.gcd(size, smallest) % math.gcd(value, smallest) == 0
        if value & (value - 1) == 0:
            assert size & (size - 1) == 0
        for other in values:
            assert value % other or size % sizes[other] == 0
