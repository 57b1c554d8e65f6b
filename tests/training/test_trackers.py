"""Services of experiment tracking, played by fakes: what they are told, and that a stage keeps its identity."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.training.test_stages import ppo

from warpsmith.errors import MissingExtraError, UsageError
from warpsmith.training.trackers import open_tracker, require_trackers


class Wandb:
    def __init__(self) -> None:
        self.opened: list[dict[str, Any]] = []
        self.told: list[tuple[int, dict[str, float]]] = []

    def init(self, **options: Any) -> "Wandb":
        self.opened.append(options)
        return self

    def log(self, figures: dict[str, float], step: int) -> None:
        self.told.append((step, figures))


class Mlflow:
    def __init__(self) -> None:
        self.opened: list[str | None] = []
        self.told: list[tuple[int, dict[str, float]]] = []

    def set_experiment(self, name: str) -> None:
        assert name == "warpsmith"

    def start_run(self, run_id: str | None, run_name: str) -> SimpleNamespace:
        self.opened.append(run_id)
        return SimpleNamespace(info=SimpleNamespace(run_id=run_id or f"new {run_name}"))

    def log_metrics(self, figures: dict[str, float], step: int) -> None:
        self.told.append((step, figures))


def test_a_stage_that_is_gone_on_with_is_the_same_run(tmp_path: Path) -> None:
    wandb, mlflow = Wandb(), Mlflow()
    packages = {"wandb": wandb, "mlflow": mlflow}
    for step in (1, 2):
        for name in packages:
            open_tracker(name, tmp_path, packages.__getitem__)(step, {"reward/mean": step / 2})
    told = [(1, {"reward/mean": 0.5}), (2, {"reward/mean": 1.0})]
    assert (wandb.told, mlflow.told) == (told, told)
    assert wandb.opened[0] == wandb.opened[1] and wandb.opened[0]["resume"] == "allow"
    assert mlflow.opened == [None, f"new {tmp_path.name}"]


def test_what_is_not_there_is_told_before_anything_starts(tmp_path: Path) -> None:
    def absent(name: str) -> None:
        return None

    require_trackers(["wandb", "mlflow"], str)
    with pytest.raises(MissingExtraError, match="wandb is not installed"):
        require_trackers(["wandb"], absent)
    with pytest.raises(UsageError, match="unknown tracker 'paper'"):
        ppo(tmp_path, trackers=("paper",))
    assert list(tmp_path.iterdir()) == []
