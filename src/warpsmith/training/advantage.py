"""Generalised advantage estimation over sequences in which some tokens are not the model's.

Schulman et al., "High-Dimensional Continuous Control Using Generalized Advantage Estimation", equations 11 and 16;
masked tokens are left out as if they were not there. With decoupled λ ("What's Behind PPO's Collapse in Long-CoT?",
section 4), the actor's advantages and the critic's targets are estimated with a λ each.
"""

from collections.abc import Sequence

from pydantic import Field

from warpsmith.types import Record


class Lambdas(Record):
    """γ, and λ of the actor's advantages and of the critic's targets (None: the actor's)."""

    gamma: float = Field(1.0, ge=0, le=1)
    actor: float = Field(0.95, ge=0, le=1)
    critic: float | None = Field(None, ge=0, le=1)

    @property
    def of_critic(self) -> float:
        """The critic's λ."""
        return self.actor if self.critic is None else self.critic


def outcome_rewards(reward: float, mask: Sequence[bool]) -> list[float]:
    """The reward of the outcome on the last token that the model wrote, 0 elsewhere; (response,).

    Raises ValueError where the model wrote none, since the reward would then be lost.
    """
    written = [at for at, is_written in enumerate(mask) if is_written]
    if not written:
        raise ValueError("no token to put the reward on")
    return [reward if at == written[-1] else 0.0 for at in range(len(mask))]


def advantages(
    rewards: Sequence[float],  # (response,)
    values: Sequence[float],  # (response,)
    mask: Sequence[bool],  # (response,)
    gamma: float,
    lam: float,
) -> list[float]:  # (response,)
    """Â of each token that the model wrote, 0 elsewhere.

    Â_t = δ_t + γλ Â_t', δ_t = r_t + γ V_t' − V_t, where t' is the next written token and V beyond the last is 0.
    """
    if not len(rewards) == len(values) == len(mask):
        raise ValueError("rewards, values and mask differ in length")
    found = [0.0] * len(mask)
    next_value = later = 0.0
    for at in range(len(mask) - 1, -1, -1):
        if mask[at]:
            later = rewards[at] + gamma * next_value - values[at] + gamma * lam * later
            next_value = values[at]
            found[at] = later
    return found


def value_targets(
    rewards: Sequence[float],
    values: Sequence[float],
    mask: Sequence[bool],
    gamma: float,
    lam: float,
) -> list[float]:  # (response,)
    """V + Â of each token that the model wrote, 0 elsewhere: what the critic learns to say."""
    found = advantages(rewards, values, mask, gamma, lam)
    return [
        value + gain if is_written else 0.0
        for value, gain, is_written in zip(values, found, mask, strict=True)
    ]


def whitened(found: Sequence[float], mask: Sequence[bool], epsilon: float = 1e-8) -> list[float]:
    """Advantages with mean 0 and (unbiased) variance 1 over the written tokens, 0 elsewhere."""
    written = [value for value, is_written in zip(found, mask, strict=True) if is_written]
    if len(written) < 2:
        return [0.0] * len(mask)
    mean = sum(written) / len(written)
    variance = sum((value - mean) ** 2 for value in written) / (len(written) - 1)
    scale = (variance + epsilon) ** -0.5
    return [
        (value - mean) * scale if is_written else 0.0 for value, is_written in zip(found, mask, strict=True)
    ]
