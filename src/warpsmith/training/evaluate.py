"""How often a policy passes on held-out tasks, with an interval: what is compared before and after each stage."""

import random
from collections.abc import Iterable, Mapping, Sequence

from warpsmith.store import RunReader
from warpsmith.training.reward import Counted, RewardSettings, episode_reward
from warpsmith.types import Record


class Rate(Record):
    """A share, and its 95 % interval from drawing tasks again."""

    mean: float
    low: float
    high: float
    tasks: int
    samples: int


def rewards_by_task(runs: Iterable[RunReader], settings: RewardSettings) -> dict[str, list[float]]:
    """Rewards of every episode that may be counted, by task; the best of the trajectory counts."""
    best = settings.model_copy(update={"counted": Counted.BEST})
    found: dict[str, list[float]] = {}
    for run in runs:
        for episode in run.episodes():
            if (earned := episode_reward(episode, run.verdict, best)) is not None:
                found.setdefault(episode.task_hash, []).append(earned)
    return found


def rate(rewards: Mapping[str, Sequence[float]], above: float, *, draws: int = 2000, seed: int = 0) -> Rate:
    """The share of samples whose reward lies above `above`, each task weighing the same.

    The interval is a percentile bootstrap over tasks: samples of one task are not independent.
    """
    shares = [sum(one > above for one in group) / len(group) for group in rewards.values() if group]
    samples = sum(len(group) for group in rewards.values())
    if not shares:
        return Rate(mean=0.0, low=0.0, high=1.0, tasks=0, samples=0)
    chance = random.Random(seed)
    means = sorted(sum(chance.choices(shares, k=len(shares))) / len(shares) for _ in range(draws))
    return Rate(
        mean=sum(shares) / len(shares),
        low=means[int(0.025 * draws)],
        high=means[min(draws - 1, int(0.975 * draws))],
        tasks=len(shares),
        samples=samples,
    )
