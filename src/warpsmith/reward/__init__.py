"""What a verdict is worth: pure functions."""

from warpsmith.reward.milestone import BASELINE_AA_CHECK, MARGIN, SpeedupKind, reward_of
from warpsmith.reward.table import REWARDS

__all__ = ["BASELINE_AA_CHECK", "MARGIN", "REWARDS", "SpeedupKind", "reward_of"]
