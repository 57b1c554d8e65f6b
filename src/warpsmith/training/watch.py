"""The rule that stops a run which is collapsing, before its last good checkpoint is buried.

The paper's runs without value pretraining collapsed; what showed first was the gap between the probabilities of what
generates and of what trains, then entropy and length. Each rule needs several steps in a row, but for a loss that is
no number: after that nothing is worth keeping.
"""

import math
from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field

from warpsmith.types import Record


class Alarm(StrEnum):
    """What was seen."""

    NOT_A_NUMBER = "a loss or gradient is no number"
    MISMATCH = "generator and trainer disagree about probabilities"
    RATIO = "importance ratios run away"
    ENTROPY_LOW = "entropy has collapsed"
    ENTROPY_HIGH = "entropy has exploded"
    LENGTH = "most responses run into their limit"
    REWARD = "the reward has fallen far below its best"
    EXCLUDED = "most episodes could not be rewarded"


class WatchSettings(Record):
    """A limit of None is not watched. `patience`: steps in a row before a run is stopped."""

    patience: int = Field(3, ge=1)
    mismatch_kl: float | None = 0.1
    ratio_p99: float | None = 5.0
    entropy_low: float | None = 0.05
    """Of its first value."""
    entropy_high: float | None = 4.0
    length_clip: float | None = 0.6
    reward_drop: float | None = 0.5
    """Below the best mean of `reward_window` steps, as a share of the scale from -1 to that best."""
    reward_window: int = Field(5, ge=1)
    excluded: float | None = 0.5


class Look(Record):
    """What one step showed; `stop`: an alarm has lasted."""

    step: int
    alarms: tuple[Alarm, ...] = ()
    stop: Alarm | None = None

    @property
    def healthy(self) -> bool:
        """A checkpoint of this step may be called good."""
        return not self.alarms


class Watch:
    """Looks at each step's metrics in turn; feeding it a run's curves again brings it back to where it was."""

    def __init__(self, settings: WatchSettings):
        self._settings = settings
        self._rows: dict[Alarm, int] = {}
        self._first_entropy: float | None = None
        self._rewards: list[float] = []
        self._best = -math.inf

    def look(self, step: int, metrics: Mapping[str, float]) -> Look:
        """Takes a step's metrics: names as in the curves, absent ones are not judged."""
        alarms = [alarm for alarm, seen in self._seen(metrics).items() if seen]
        self._rows = {alarm: self._rows.get(alarm, 0) + 1 for alarm in alarms}
        lasting = (
            alarm
            for alarm, rows in self._rows.items()
            if rows >= self._settings.patience or alarm is Alarm.NOT_A_NUMBER
        )
        return Look(step=step, alarms=tuple(alarms), stop=next(lasting, None))

    def _seen(self, metrics: Mapping[str, float]) -> dict[Alarm, bool]:
        limits = self._settings
        entropy = metrics.get("actor/entropy")
        if entropy is not None and self._first_entropy is None and math.isfinite(entropy):
            self._first_entropy = entropy
        first = self._first_entropy or 0.0
        return {
            Alarm.NOT_A_NUMBER: any(
                not math.isfinite(metrics[name])
                for name in ("actor/loss", "actor/grad_norm", "critic/loss", "critic/grad_norm")
                if name in metrics
            ),
            Alarm.MISMATCH: _above(metrics.get("mismatch/kl"), limits.mismatch_kl),
            Alarm.RATIO: _above(metrics.get("ratio/p99"), limits.ratio_p99),
            Alarm.ENTROPY_LOW: limits.entropy_low is not None
            and entropy is not None
            and entropy < limits.entropy_low * first,
            Alarm.ENTROPY_HIGH: first > 0
            and _above(entropy, None if limits.entropy_high is None else limits.entropy_high * first),
            Alarm.LENGTH: _above(metrics.get("response/clip_ratio"), limits.length_clip),
            Alarm.REWARD: self._fell(metrics.get("reward/mean")),
            Alarm.EXCLUDED: _above(metrics.get("reward/none"), limits.excluded),
        }

    def _fell(self, reward: float | None) -> bool:
        limits = self._settings
        if reward is None or limits.reward_drop is None or not math.isfinite(reward):
            return False
        self._rewards = [*self._rewards, reward][-limits.reward_window :]
        if len(self._rewards) < limits.reward_window:
            return False
        mean = sum(self._rewards) / len(self._rewards)
        self._best = max(self._best, mean)
        return self._best > -1 and mean < self._best - limits.reward_drop * (self._best + 1)


def _above(value: float | None, limit: float | None) -> bool:
    return value is not None and limit is not None and value > limit
