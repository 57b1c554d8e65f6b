"""What an episode is worth to a trainer: one number, or None where it must not be trained on at all.

In training the reward is that of the final workspace, judged once at the end, so that a policy learns to leave its
best work where it lies; evaluation counts the best of the trajectory. `STATUS_TABLE` says what a status is worth.
"""

from collections.abc import Callable
from enum import StrEnum

from pydantic import field_validator

from warpsmith.errors import UsageError
from warpsmith.reward import REWARDS, SpeedupKind, reward_of
from warpsmith.types import TASK_STOPS, Episode, Record, StopReason, Verdict

NOT_CORRECT = -1.0
"""Also of an episode that hands in nothing."""
_NOBODYS = TASK_STOPS | {
    StopReason.MODEL_UNAVAILABLE,
    StopReason.MODEL_REFUSED,
    StopReason.MODEL_UNREADABLE,
}
"""Ends that say nothing about what the policy did."""


class Counted(StrEnum):
    """Which submission of an episode is rewarded."""

    FINAL = "final"
    BEST = "best"


class RewardSettings(Record):
    """`scheme` is a name in `reward.REWARDS`: `milestone`, or `raw` for the ablation."""

    scheme: str = "milestone"
    speedup: SpeedupKind = SpeedupKind.MATCHED
    counted: Counted = Counted.FINAL

    @field_validator("scheme")
    @classmethod
    def _known(cls, scheme: str) -> str:
        if scheme not in REWARDS:
            raise UsageError(
                f"unknown reward {scheme!r}", hint=f"choose one of: {', '.join(sorted(REWARDS))}"
            )
        return scheme


def scalar(verdict: Verdict, settings: RewardSettings) -> float | None:
    """The verdict's reward under the chosen scheme; None: it must not be rewarded."""
    return REWARDS[settings.scheme](reward_of(verdict, settings.speedup))


def episode_reward(
    episode: Episode, verdict_of: Callable[[str], Verdict | None], settings: RewardSettings
) -> float | None:
    """The reward of a finished episode, whose verdicts `verdict_of` finds by hash.

    Nothing handed in is not correct. None: the task was refused, the model's service failed, or the verdict is one
    that no reward follows from.
    """
    if episode.stop in _NOBODYS:
        return None
    if settings.counted is Counted.BEST:
        handed_in, verdict_hash = episode.best_submission_hash, episode.final_verdict_hash
    else:
        handed_in, verdict_hash = episode.answer_submission_hash, episode.answer_verdict_hash
    if handed_in is None:
        return NOT_CORRECT
    verdict = verdict_of(verdict_hash) if verdict_hash else None
    return None if verdict is None else scalar(verdict, settings)
