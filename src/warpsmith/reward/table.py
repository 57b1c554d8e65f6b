"""The scalar that a run trains or ranks on, by name."""

from collections.abc import Callable

from warpsmith.types import Reward

REWARDS: dict[str, Callable[[Reward], float | None]] = {
    "milestone": lambda reward: None if reward.milestone is None else float(reward.milestone),
    "raw": lambda reward: reward.raw,
}
"""One line a reward; None means that the episode must not be rewarded at all."""
