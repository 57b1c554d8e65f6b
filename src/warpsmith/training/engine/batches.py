"""Stored tokens as verl's engine wants them: nested tensors, nothing padded."""

from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from warpsmith.training.lines import read_lines
from warpsmith.training.samples import Sample
from warpsmith.training.trajectories import Rewarded


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
