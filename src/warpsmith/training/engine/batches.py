"""Stored tokens as verl's engine wants them: nested tensors, nothing padded."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch.utils.data import Dataset

from warpsmith.errors import InfrastructureError
from warpsmith.training.lines import read_lines
from warpsmith.training.samples import Sample
from warpsmith.training.trajectories import Rewarded

Batch = TypeVar("Batch")


def by_epochs(loader: Iterable[Batch], set_epoch: Callable[[int], None], epoch: int) -> Iterator[Batch]:
    """Batches without end, one epoch of the loader after the other from `epoch` on.

    A loader that was restored at the end of an epoch has nothing left of that one: its first round is empty and
    counts for nothing. Raises InfrastructureError where it stays so.
    """
    was_empty = False
    while True:
        set_epoch(epoch)
        drawn = 0
        for batch in loader:
            drawn += 1
            yield batch
        if not drawn and was_empty:
            raise InfrastructureError("the data holds no whole batch", hint="give more, or smaller batches")
        epoch, was_empty = epoch + bool(drawn), not drawn


class SampleDataset(Dataset):
    """Samples of fine-tuning: `input_ids`, `position_ids` and `loss_mask`, each (tokens,)."""

    def __init__(self, path: Path):
        self._items = [_item(sample.ids, sample.mask) for sample in read_lines(path, Sample)]

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self._items[index]


class TrajectoryDataset(Dataset):
    """Rewarded trajectories: as SampleDataset's items, and `outcome` (1,)."""

    def __init__(self, path: Path):
        self._items = [
            _item(
                (*one.trajectory.prompt, *one.trajectory.response),
                (*([False] * len(one.trajectory.prompt)), *one.trajectory.mask),
            )
            | {"outcome": torch.tensor([one.reward], dtype=torch.float32)}
            for one in read_lines(path, Rewarded)
        ]

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self._items[index]


def _item(ids: tuple[int, ...], mask: tuple[bool, ...]) -> dict[str, Any]:
    return {
        "input_ids": torch.tensor(ids, dtype=torch.int64),
        "position_ids": torch.arange(len(ids), dtype=torch.int64),
        "loss_mask": torch.tensor(mask, dtype=torch.int64),
    }
