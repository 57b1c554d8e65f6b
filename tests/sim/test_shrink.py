"""Derived tasks: which sizes change, and what stays true of them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.errors import TaskRefusedError, TaskUnreadableError, TaskUnsupportedError
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
    with pytest.raises(TaskUnreadableError, match="line 1"):
        shrink(task("def ("))


RAISING = {
    "import": ("import torch\n", "import torch\nraise {}\n", "import raised {} at line 2 of the task: no"),
    "inputs": (
        "    return [torch.rand",
        "    raise {}\n    return [torch.rand",
        "get_inputs() raised {} at line 11",
    ),
    "arguments": ("    return []", "    raise {}", "get_init_inputs() raised {} at line 14"),
    "model": (
        "    def forward",
        "    def __init__(self):\n        raise {}\n    def forward",
        "Model() raised {}",
    ),
}


@pytest.mark.parametrize("step", RAISING)
@pytest.mark.parametrize("kind", ["ValueError", "SystemExit"])
def test_a_task_that_raises_before_it_runs_is_refused(step: str, kind: str) -> None:
    old, new, said = RAISING[step]
    code = POINTWISE.format(rows=4096, bias=0)
    assert old in code
    size = measure(code.replace(old, new.format(f"{kind}('no')"), 1))
    assert size.error.startswith(said.format(kind)) and size.error.endswith("of the task: no")
    assert not size.fits(1 << 40, 1 << 40)


def test_what_ends_the_measuring_process_is_told_by_how_it_ended() -> None:
    with pytest.raises(TaskRefusedError, match="import raised ValueError at line 1 of the task: no"):
        shrink(task("raise ValueError('no')\n"))
    for ending, said in (("os._exit(0)", "exit status 0"), ("os.abort()", "SIGABRT")):
        with pytest.raises(TaskRefusedError, match=rf"ended the process that it ran in \({said}\)"):
            shrink(task(f"import os\n{ending}\n"))


def test_a_step_that_needs_values_is_measured_on_the_cpu() -> None:
    code = POINTWISE.format(rows=8, bias=0).replace(
        "[torch.rand(*shape)]", "[torch.rand(*shape) * (1 + torch.ones(()).item())]"
    )
    model = "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    code = code.replace(
        "class Model(nn.Module):\n", model + "        self.scale = float(torch.ones(3).sum())\n"
    )
    size = measure(code)
    assert (size.error, size.forward, size.largest) == ("", True, 8 * 32770)


def test_what_a_task_prints_is_not_taken_for_its_size() -> None:
    small = task(POINTWISE.format(rows=2, bias=1) + "import os\nos.write(1, b'{}\\n')\nprint('hello')\n")
    assert shrink(small) is small


def test_inputs_may_be_a_generator_or_a_lone_tensor() -> None:
    for given_back in ("yield torch.rand(*shape)", "return torch.rand(*shape)"):
        code = POINTWISE.format(rows=2, bias=1).replace("return [torch.rand(*shape)]", given_back)
        size = measure(code)
        assert (size.error, size.forward, size.largest) == ("", True, 2 * 32770)


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
