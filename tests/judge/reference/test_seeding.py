import random

import pytest
import torch

from warpsmith.judge.reference.seeding import seed_all


def test_draws_what_torch_draws_after_its_own_seed() -> None:
    for seed in (0, 7, (1 << 62) - 1):
        torch.manual_seed(seed)
        expected = torch.rand(4), torch.randn(4)
        seed_all(seed)
        assert torch.equal(torch.rand(4), expected[0])
        assert torch.equal(torch.randn(4), expected[1])


def test_repeats_the_other_generators_too() -> None:
    import numpy

    seed_all(5)
    first = random.random(), numpy.random.rand()
    seed_all(5)
    assert (random.random(), numpy.random.rand()) == first


@pytest.mark.skipif(torch.backends.cuda.is_built(), reason="where CUDA may start, its seed is kept for it")
def test_keeps_nothing_for_backends_that_never_start() -> None:
    def kept() -> list[int]:
        return [len(backend._queued_calls) for backend in (torch.cuda, torch.xpu, torch.mtia)]

    before = kept()
    seed_all(1)
    assert kept() == before
