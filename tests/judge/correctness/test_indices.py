import pytest
import torch

from warpsmith.judge.correctness import indices
from warpsmith.judge.correctness.gates import compare

TIES = torch.tensor([[3.0, 1.0, 3.0, 0.0], [2.0, 2.0, 1.0, 2.0]])


def settled(forward, actual, inputs):
    """The reference's output with the indices of `actual` wherever they choose equal values."""
    expected = forward(*inputs)
    choices = indices.observe(lambda: forward(*inputs))
    return indices.settled(expected, actual, choices, list(inputs))


def agrees(forward, actual, *inputs):
    assert indices.differ(forward(*inputs), actual)
    return compare(settled(forward, actual, inputs), actual).passed


@pytest.mark.parametrize(
    ("forward", "right", "wrong"),
    [
        (lambda x: x.argmax(1), [2, 3], [1, 0]),
        (lambda x: x.argmax(1, keepdim=True), [[2], [1]], [[3], [1]]),
        (lambda x: x.argmax(), 2, 1),
        (lambda x: x.max(1)[1], [2, 3], [4, 3]),
        (lambda x: (-x).min(dim=-1).indices, [2, 1], [-1, 1]),
        (lambda x: x.argmax(1).int(), [2, 3], [1, 0]),
        (lambda x: x.topk(2, 1)[1], [[2, 0], [3, 1]], [[2, 2], [0, 1]]),
        (lambda x: x.argsort(1), [[3, 1, 2, 0], [2, 3, 1, 0]], [[3, 1, 0, 0], [2, 0, 1, 3]]),
        (lambda x: x.kthvalue(2, 1)[1], [1, 3], [0, 3]),
        (lambda x: torch.nn.functional.max_pool1d(x[None], 4, return_indices=True)[1], [[[2], [3]]], [[[1], [0]]]),
    ],
)  # fmt: skip
def test_another_index_is_right_where_it_chooses_the_same(forward, right, wrong):
    dtype = forward(TIES).dtype
    same = forward(TIES)
    assert compare(settled(forward, same, (TIES,)), same).passed
    right = torch.tensor(right, dtype=dtype)
    if torch.equal(right, same):
        # the reference's own choice is one of the right ones: take another
        right = torch.tensor([0, 0], dtype=dtype) if right.shape == (2,) else right
    assert torch.equal(right, same) or agrees(forward, right, TIES)
    wrong = torch.tensor(wrong, dtype=dtype)
    assert not agrees(forward, wrong, TIES)


def test_a_stable_sort_has_one_order():
    def forward(x):
        return x.sort(dim=1, stable=True)[1]

    other = torch.tensor([[3, 1, 2, 0], [2, 3, 1, 0]])
    assert not agrees(forward, other, TIES)


def test_an_input_is_chosen_from_exactly_and_a_computed_value_within_rounding():
    x = torch.tensor([[1.0, 1.0 + 1e-6, 0.0]])
    assert not agrees(lambda x: x.argmax(1), torch.tensor([0]), x)
    assert agrees(lambda x: (x * 2).argmax(1), torch.tensor([0]), x)
    assert not agrees(lambda x: (x * 2).argmax(1), torch.tensor([2]), x)


def test_integers_that_no_operator_chose_are_exact():
    x = torch.tensor([1, 2, 3])
    assert not agrees(lambda x: x * 2, torch.tensor([2, 4, 7]), x)
    assert not indices.differ([x], (x,))
    assert not indices.differ(x, x.int())


def test_a_source_that_changed_afterwards_settles_nothing():
    def forward(x):
        y = x + 0
        chosen = y.argmax(1)
        y.zero_()
        return chosen

    assert not agrees(forward, torch.tensor([2, 1]), TIES)
