"""Variants of a task: sizes written into its text, other values in its inputs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.errors import TaskUnreadableError, UsageError
from warpsmith.tasks.variants import InputKind, sizes, variants
from warpsmith.types import Task, TaskSource

CODE = '''"""Größe × 2."""
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, n):
        batch_size = 3
        return x * n

batch_size = 128; dim = 16_384  # ä dim = 5
rate = 0.5
twice = 4
twice = 8
def get_inputs():
    return [torch.rand(batch_size, dim), 7]
def get_init_inputs():
    return []
'''


def a_task(code: str = CODE) -> Task:
    return Task(name="t", code=code)


def drawn(task: Task) -> list:
    names: dict = {}
    exec(task.code, names)
    return names["get_inputs"]()


def test_sizes_are_integers_assigned_once_at_module_level() -> None:
    assert sizes(a_task()) == {"batch_size": 128, "dim": 16384}


def test_every_combination_is_a_task_of_its_own() -> None:
    found = variants(a_task(), ["batch_size=1,2", "dim=3,4"])
    assert [v.label for v in found] == [
        "batch_size=1, dim=3", "batch_size=1, dim=4", "batch_size=2, dim=3", "batch_size=2, dim=4",
    ]  # fmt: skip
    assert [tuple(drawn(v.task)[0].shape) for v in found] == [(1, 3), (1, 4), (2, 3), (2, 4)]
    assert len({v.task.task_hash for v in found}) == 4
    assert all(v.task.derived_from == a_task().task_hash for v in found)
    assert all(v.task.source is TaskSource.DERIVED for v in found)


def test_the_tasks_own_size_is_the_task_itself() -> None:
    (same,) = variants(a_task(), ["batch_size=128", "inputs=task"])
    # 16_384 is not touched, so that the text is the same
    assert same.task == a_task()


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_only_the_numbers_change(batch: int, dim: int) -> None:
    (found,) = variants(a_task(), [f"batch_size={batch}", f"dim={dim}"])
    expected = CODE.replace("batch_size = 128; dim = 16_384", f"batch_size = {batch}; dim = {dim}")
    assert found.task.code == expected


@pytest.mark.parametrize(
    ("kind", "right"),
    [
        (InputKind.NORMAL, lambda x: abs(x.mean()) < 0.1 and abs(x.std() - 1) < 0.1),
        (InputKind.UNIFORM, lambda x: x.min() >= 0 and x.max() <= 1 and abs(x.mean() - 0.5) < 0.05),
        (InputKind.SPARSE, lambda x: 0.85 < (x == 0).double().mean() < 0.95),
        (InputKind.LARGE, lambda x: 90 < x.std() < 110),
    ],
)
def test_values_of_inputs(kind: InputKind, right: object) -> None:
    (found,) = variants(a_task(), [f"inputs={kind.value}", "batch_size=64", "dim=64"])
    x, n = drawn(found.task)
    assert tuple(x.shape) == (64, 64) and n == 7
    assert right(x)


def test_a_lone_tensor_and_a_generator_are_inputs_too() -> None:
    for given_back in ("return torch.ones(4)", "yield torch.ones(4)"):
        code = f"import torch\ndef get_inputs():\n    {given_back}\n"
        (found,) = variants(a_task(code), ["inputs=large"])
        (x,) = drawn(found.task)
        assert tuple(x.shape) == (4,) and x.abs().max() > 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["batch_size"], "cannot read"),
        (["=3"], "cannot read"),
        (["batch_size="], "cannot read"),
        (["batch_size=0"], "is no size"),
        (["batch_size=-4"], "is no size"),
        (["batch_size=²"], "is no size"),
        (["width=4"], "assigns no size width"),
        (["rate=4"], "assigns no size rate"),
        (["twice=4"], "assigns no size twice"),
        (["inputs=nan"], "unknown values"),
        (["dim=1", "dim=2"], "varied twice"),
        ([f"dim={','.join(map(str, range(1, 66)))}"], "too many"),
    ],
)
def test_what_cannot_be_varied_is_said(options: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        variants(a_task(), options)


def test_text_that_is_not_python() -> None:
    with pytest.raises(TaskUnreadableError, match="syntax error in line 1"):
        variants(a_task("def"), ["dim=3"])
