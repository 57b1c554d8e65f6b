"""What is read off a training step. Sequences are flat over the tokens that the model wrote."""

import math
from collections import Counter
from collections.abc import Sequence

PERCENTILES = (1, 50, 99, 99.9)


def explained_variance(values: Sequence[float], returns: Sequence[float]) -> float:
    """1 − Var(returns − values) / Var(returns); nan where the returns do not vary. 0: no better than their mean."""
    spread = _variance(returns)
    if spread == 0.0 or math.isnan(spread):
        return math.nan
    return 1.0 - _variance([target - guess for target, guess in zip(returns, values, strict=True)]) / spread


def clip_fractions(
    ratios: Sequence[float], gains: Sequence[float], low: float, high: float
) -> tuple[float, float]:
    """Shares of tokens whose gradient PPO's clip removes: (below 1−low with Â<0, above 1+high with Â>0)."""
    if not ratios:
        return 0.0, 0.0
    pairs = list(zip(ratios, gains, strict=True))
    below = sum(ratio < 1 - low and gain < 0 for ratio, gain in pairs)
    above = sum(ratio > 1 + high and gain > 0 for ratio, gain in pairs)
    return below / len(pairs), above / len(pairs)


def length_clip_ratio(lengths: Sequence[int], limit: int) -> float:
    """Share of responses that reached the limit."""
    return sum(length >= limit for length in lengths) / len(lengths) if lengths else 0.0


def milestones(rewards: Sequence[float | None]) -> dict[str, float]:
    """Share of episodes by reward: `reward/-1` … `reward/3`, and `reward/none` for those that may not be used."""
    counts = Counter("none" if reward is None else f"{reward:g}" for reward in rewards)
    names = ["-1", "1", "2", "3", "none"]
    others = sorted(set(counts) - set(names))
    if others:  # another scheme than milestones: only its sign is counted
        signs = Counter(
            "none" if reward is None else "positive" if reward > 0 else "not_positive" for reward in rewards
        )
        return {f"reward/{name}": signs[name] / len(rewards) for name in ("positive", "not_positive", "none")}
    return {f"reward/{name}": counts[name] / max(1, len(rewards)) for name in names}


def mismatch(rollout: Sequence[float], trainer: Sequence[float]) -> dict[str, float]:
    """How far the log-probabilities of what generated the tokens lie from those of what trains on them.

    `mismatch/kl`: mean of log p_rollout − log p_trainer on the rollout's own tokens: it estimates KL;
    `mismatch/mean_abs` and `mismatch/max_abs` of the probabilities' difference; `ratio/pN`: percentiles of
    p_trainer / p_rollout.
    """
    pairs = list(zip(rollout, trainer, strict=True))
    if not pairs:
        return {}
    apart = [abs(math.exp(a) - math.exp(b)) for a, b in pairs]
    ratios = sorted(math.exp(min(80.0, b - a)) for a, b in pairs)
    return {
        "mismatch/kl": sum(a - b for a, b in pairs) / len(pairs),
        "mismatch/mean_abs": sum(apart) / len(apart),
        "mismatch/max_abs": max(apart),
        **{f"ratio/p{p:g}": percentile(ratios, p) for p in PERCENTILES},
    }


def guarded_ratios(
    rollout: Sequence[float], trainer: Sequence[float], limit: float
) -> tuple[list[float], float]:
    """Importance weights min(p_trainer / p_rollout, limit), and the share of tokens that the limit cut."""
    ratios = [math.exp(min(80.0, b - a)) for a, b in zip(rollout, trainer, strict=True)]
    cut = sum(ratio > limit for ratio in ratios)
    return [min(ratio, limit) for ratio in ratios], cut / len(ratios) if ratios else 0.0


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Of sorted numbers, between neighbours by straight line."""
    at = (len(ordered) - 1) * percent / 100
    below = math.floor(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)


def _variance(numbers: Sequence[float]) -> float:
    if not numbers:
        return math.nan
    mean = sum(numbers) / len(numbers)
    return sum((number - mean) ** 2 for number in numbers) / len(numbers)
