"""What passes through shared memory, on this machine's CPU and, where there is one, on its GPU."""

import pytest
import torch

from warpsmith.judge.runner.exchange import FEW, POISON, InputBuffers, Outputs

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(autouse=True)
def present(device: str) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("count", [1, FEW, FEW + 1, 64])
def test_every_byte_of_every_region_is_poison_and_no_other(device: str, count: int) -> None:
    whole = torch.full((count * 1000,), 0x11, dtype=torch.uint8, device=device)
    # Sizes that are no multiple of a word, and gaps between them that belong to somebody else.
    regions = tuple(whole[i * 1000 : i * 1000 + 997 - i] for i in range(count))
    outputs = Outputs((), regions, count, None)
    for turn in range(2 * len(POISON)):
        outputs.poison(turn)
        assert all((region == POISON[turn % len(POISON)]).all() for region in regions)
    assert int((whole == 0x11).sum()) == whole.numel() - sum(r.numel() for r in regions)


@pytest.mark.parametrize("device", DEVICES)
def test_a_region_that_is_named_twice_is_poisoned_once(device: str) -> None:
    region = torch.zeros(64, dtype=torch.uint8, device=device)
    Outputs((), (region,) * (FEW + 4), FEW + 4, None).poison(2)
    assert (region == POISON[2]).all()


@pytest.mark.parametrize("device", DEVICES)
def test_sets_are_written_together_each_in_its_place_in_any_dtype_and_order(device: str) -> None:
    def draw(i: int) -> list:
        steps = torch.arange(12, dtype=torch.float32, device=device).view(3, 4)
        return [steps + i, (steps.half() * i).t(), {"n": 3, "mask": steps.long() > i}, steps[:, :0]]

    buffers = InputBuffers(device, draw(0), 5, 0)
    try:
        buffers.write(0, [draw(0), draw(1)])
        buffers.write(2, [draw(2), draw(3), draw(4)])
        for i in range(5):
            first, second, _, mask, empty = (*draw(i)[:2], None, draw(i)[2]["mask"], draw(i)[3])
            for view, expected in zip(buffers.views(i), [first, second, mask, empty], strict=True):
                assert view.dtype == expected.dtype and torch.equal(view, expected)
    finally:
        buffers.close()


@pytest.mark.parametrize("device", DEVICES)
def test_a_draw_of_another_structure_is_refused(device: str) -> None:
    buffers = InputBuffers(device, [torch.ones(2, device=device)], 1, 0)
    try:
        with pytest.raises(ValueError, match="structure changed"):
            buffers.write(0, [[torch.ones(2, device=device)] * 2])
    finally:
        buffers.close()
