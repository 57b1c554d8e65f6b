"""What a stage hands to the processes that train: one JSON file each."""

from enum import StrEnum

from pydantic import Field

from warpsmith.training.advantage import Lambdas
from warpsmith.training.budget import NO_BUDGET, Budget
from warpsmith.training.player import EpisodePlan
from warpsmith.training.watch import WatchSettings
from warpsmith.types import Record

COLLAPSED = 4
"""Exit status of a trainer that the watch has stopped."""
PAUSED = 5
"""Of one whose budget is spent; all that it has learned is saved."""


class LearnerKind(StrEnum):
    """Which model learns what."""

    FINE_TUNE = "fine_tune"
    CRITIC = "critic"


class LearnerJob(Record):
    """Fine-tuning or the critic's pretraining; `data` is a file of samples or of rewarded trajectories."""

    kind: LearnerKind
    folder: str
    data: str
    overrides: tuple[str, ...]
    save_every: int = Field(ge=1)
    lambdas: Lambdas = Lambdas()
    watch: WatchSettings = WatchSettings()
    budget: Budget = NO_BUDGET
    trackers: tuple[str, ...] = ()


class PpoJob(Record):
    """Reinforcement learning."""

    folder: str
    overrides: tuple[str, ...]
    plan: EpisodePlan
    lambdas: Lambdas = Lambdas()
    watch: WatchSettings = WatchSettings()
    budget: Budget = NO_BUDGET
    trackers: tuple[str, ...] = ()
    ratio_limit: float = Field(2.0, gt=1)
    """Importance ratios of generator to trainer are cut here."""
