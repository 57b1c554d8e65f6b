import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.judge.correctness.distributions import DISTRIBUTIONS, jittered, smaller_batches, transposed

BY_NAME = {d.name: d for d in DISTRIBUTIONS}
dtypes = st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64])
shapes = st.lists(st.integers(1, 7), min_size=0, max_size=4).map(tuple)


def drawn(seed, shape, dtype=torch.float32, positive=True):
    generator = torch.Generator().manual_seed(seed)
    draw = torch.rand if positive else torch.randn
    return draw(shape, generator=generator).to(dtype)


@given(st.integers(0, 999), shapes, dtypes, st.booleans(), st.sampled_from(DISTRIBUTIONS))
@settings(deadline=None, max_examples=150)
def test_form_is_kept_and_originals_are_left(seed, shape, dtype, positive, distribution):
    x = drawn(seed, shape, dtype, positive)
    before = x.clone()
    changed = distribution.apply([x, 3, {"a": None}])
    assert torch.equal(x, before)
    if changed is None:
        return
    y = changed[0]
    assert (y.shape, y.dtype, y.stride(), changed[1:]) == (x.shape, x.dtype, x.stride(), [3, {"a": None}])
    assert torch.isfinite(y).all() and torch.equal(y[x == 0], x[x == 0])


def test_what_each_does():
    x = drawn(1, (64, 64))
    (zero_mean,) = BY_NAME["zero-mean"].apply([x])
    assert abs(zero_mean.mean()) < 1e-3 and zero_mean.min() < -0.4
    assert BY_NAME["zero-mean"].apply([drawn(1, (64, 64), positive=False)]) is None
    assert (BY_NAME["negative"].apply([x])[0] <= 0).all()
    assert BY_NAME["shifted"].apply([x])[0].min() > 1
    assert BY_NAME["small"].apply([x])[0].max() <= 1e-3
    assert BY_NAME["large"].apply([x])[0].max() > 900
    (edges,) = BY_NAME["edge values"].apply([x])
    zeros = edges[edges == 0]
    assert torch.signbit(zeros).any() and not torch.signbit(zeros).all()
    tiny = edges[(edges != 0) & (edges.abs() < torch.finfo(torch.float32).tiny)]
    assert 0 < tiny.numel() < 0.1 * x.numel()
    assert edges.unique().numel() < 200 and edges.max() > 10


@pytest.mark.parametrize(
    "kept",
    [
        torch.arange(6),
        torch.ones(4) > 0,
        torch.tensor([0.0, 1.0, 1.0, -1.0]),
        torch.zeros(3),
        torch.tensor([0.5, float("-inf")]),
        torch.complex(torch.rand(3), torch.rand(3)),
        torch.rand(1, 4).expand(3, 4),
        torch.rand(3, 8)[:, ::2],
        torch.rand(0, 3),
    ],
)
def test_what_is_not_drawn_as_floats_stays(kept):
    for distribution in DISTRIBUTIONS:
        assert distribution.apply([kept]) is None
        other = torch.rand(5)
        both = distribution.apply([kept, other])
        assert both is None or both[0].data_ptr() == kept.data_ptr()


def test_structure_stays():
    x = drawn(2, (32, 32))
    for distribution in DISTRIBUTIONS:
        (lower,) = distribution.apply([x.tril()])
        assert torch.equal(lower, lower.tril())
        (even,) = distribution.apply([(x + x.T) / 2])
        assert torch.equal(even, even.T)


def test_one_tensor_passed_twice_stays_one():
    x = drawn(3, (4, 4))
    a, b, c = BY_NAME["negative"].apply([x, x, x.clone()])
    assert a.data_ptr() == b.data_ptr() != c.data_ptr()
    assert BY_NAME["negative"].apply([x, x[1:]]) is None
    a, b = jittered([x, x])
    assert a.data_ptr() == b.data_ptr()


def test_jitter_is_half_to_one_unit():
    x = drawn(4, (1000,)) + 1
    share = (jittered([x])[0] / x - 1).abs()
    assert 0.49 * 2.0**-10 < share.min() < share.max() < 1.01 * 2.0**-10


def test_other_shapes_and_layouts():
    x, y, n = drawn(5, (8, 5)), drawn(6, (8,)), torch.arange(3)
    (name, both), (_, alone) = smaller_batches([x, y, n, 2])
    assert name == "shape (5, 5)"
    assert [t.shape[0] for t in both([x, y, n, 2])[:3]] == [5, 5, 3]
    assert [t.shape[0] for t in alone([x, y, n, 2])[:3]] == [5, 8, 3]
    assert smaller_batches([drawn(1, (1, 4))]) == [] and smaller_batches([n]) == []
    a, b, _, _ = transposed([x, y, n, 2])
    assert torch.equal(a, x) and a.stride() == (1, 8) and b is not None
    assert transposed([y, n]) is None
