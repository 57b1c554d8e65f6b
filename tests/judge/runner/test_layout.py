import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.judge.runner.layout import DTYPES, TensorLayout, contiguous_stride, is_dense, layout_of, pack

shapes = st.lists(st.integers(1, 5), max_size=4)


@given(shapes, st.randoms(use_true_random=False), st.sampled_from(sorted(DTYPES)))
def test_a_packed_tensor_comes_back_with_its_values_and_order(
    shape: list[int], random: object, dtype: str
) -> None:
    order = list(range(len(shape)))
    random.shuffle(order)
    tensor = (torch.rand(shape) * 7).to(DTYPES[dtype]).permute(order)
    others = [torch.ones(3), tensor, torch.zeros(2, 2, dtype=torch.int64)]
    layouts, nbytes = pack(others)
    buffer = torch.zeros(nbytes, dtype=torch.uint8)
    for layout, t in zip(layouts, others, strict=True):
        layout.of(buffer).copy_(t)
    back = layouts[1].of(buffer)
    assert torch.equal(back, tensor) and back.dtype is tensor.dtype
    assert back.shape == tensor.shape
    if all(n > 1 for n in shape):
        assert back.stride() == tensor.stride()


def test_an_expanded_or_gapped_tensor_is_laid_out_row_major() -> None:
    for tensor in (torch.rand(3, 1).expand(3, 4), torch.rand(4, 6)[:, ::2]):
        assert not is_dense(tensor)
        assert pack([tensor])[0][0].stride == contiguous_stride(tuple(tensor.shape))


def test_a_layout_that_reaches_outside_its_buffer_is_refused() -> None:
    buffer = torch.zeros(64, dtype=torch.uint8)
    assert TensorLayout("float32", (16,), (1,), 0).of(buffer).shape == (16,)
    for bad in (
        TensorLayout("float32", (17,), (1,), 0),
        TensorLayout("float32", (16,), (1,), 4),
        TensorLayout("float32", (2,), (100,), 0),
        TensorLayout("float32", (1,), (1,), 2),
    ):
        with pytest.raises(ValueError):
            bad.of(buffer)


@pytest.mark.parametrize(
    "change",
    [
        {"offset": -1},
        {"offset": True},
        {"shape": [1.5]},
        {"shape": [-2]},
        {"dtype": "object"},
        {"dtype": []},
        {"stride": []},
        {"x": 1},
    ],
)
def test_a_layout_from_a_hostile_message_is_checked(change: dict) -> None:
    good = layout_of(torch.zeros(3), 0).to_json()
    good = {k: list(v) if isinstance(v, tuple) else v for k, v in good.items()}
    assert TensorLayout.from_json(good).shape == (3,)
    with pytest.raises(ValueError):
        TensorLayout.from_json({**good, **change})
