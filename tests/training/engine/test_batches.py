"""Epochs of batches, also from where a checkpoint was."""

import itertools
from collections.abc import Iterator

import pytest

pytest.importorskip("torch", reason="needs torch")

from warpsmith.errors import InfrastructureError
from warpsmith.training.engine.batches import by_epochs


class Loader:
    """Three batches an epoch; the first round begins where a checkpoint was."""

    def __init__(self, done: int, batches: int = 3):
        self.done, self.batches, self.epoch = done, batches, -1

    def __iter__(self) -> Iterator[tuple[int, int]]:
        first, self.done = self.done, 0
        return iter([(self.epoch, number) for number in range(first, self.batches)])

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


@pytest.mark.parametrize(
    ("done", "epoch", "first"),
    [
        (0, 0, [(0, 0), (0, 1), (0, 2), (1, 0)]),
        (2, 1, [(1, 2), (2, 0), (2, 1), (2, 2)]),
        # saved behind the last batch of an epoch: the next epoch is whole
        (3, 2, [(2, 0), (2, 1), (2, 2), (3, 0)]),
    ],
)
def test_goes_on_where_it_was(done: int, epoch: int, first: list[tuple[int, int]]) -> None:
    loader = Loader(done)
    assert list(itertools.islice(by_epochs(loader, loader.set_epoch, epoch), 4)) == first


def test_data_of_less_than_a_batch_is_told() -> None:
    loader = Loader(0, batches=0)
    with pytest.raises(InfrastructureError, match="no whole batch"):
        next(by_epochs(loader, loader.set_epoch, 0))
