"""Which tasks a policy is trained on: those that it solves sometimes, and a share of the user's own.

A group is what one policy did on one task. Where all of a group earn the same, its advantages are 0 but for what the
critic guesses: such groups cost as much as others and teach little, so they are counted.
"""

import random
from collections.abc import Mapping, Sequence
from enum import StrEnum

from pydantic import Field, model_validator

from warpsmith.errors import UsageError
from warpsmith.types import Record, Task


class Band(StrEnum):
    """How hard a task is for the policy that tried it, by the share of its episodes that passed."""

    UNTRIED = "untried"
    UNSOLVED = "unsolved"
    HARD = "hard"
    MEDIUM = "medium"
    EASY = "easy"
    SOLVED = "solved"


class CurriculumSettings(Record):
    """`weights` share out what `own_share` leaves; a band without tasks leaves its share to the others."""

    hard_below: float = Field(0.3, gt=0, lt=1)
    easy_from: float = Field(0.7, gt=0, lt=1)
    weights: dict[Band, float] = Field(
        default_factory=lambda: {
            Band.UNTRIED: 0.2,
            Band.UNSOLVED: 0.1,
            Band.HARD: 0.3,
            Band.MEDIUM: 0.3,
            Band.EASY: 0.1,
            Band.SOLVED: 0.0,
        }
    )
    own_share: float = Field(0.0, ge=0, le=1)
    """Of the user's own tasks, drawn evenly whatever their band."""
    seed: int = 0

    @model_validator(mode="after")
    def _sound(self) -> "CurriculumSettings":
        if self.hard_below > self.easy_from:
            raise ValueError("hard_below lies above easy_from")
        if any(weight < 0 for weight in self.weights.values()):
            raise ValueError("a band's weight is negative")
        return self


def band_of(rewards: Sequence[float], settings: CurriculumSettings) -> Band:
    """The band of a task by the rewards of its episodes; what is above 0 passed."""
    if not rewards:
        return Band.UNTRIED
    rate = sum(reward > 0 for reward in rewards) / len(rewards)
    if rate in (0.0, 1.0):
        return Band.SOLVED if rate else Band.UNSOLVED
    if rate < settings.hard_below:
        return Band.HARD
    return Band.EASY if rate >= settings.easy_from else Band.MEDIUM


class Groups(Record):
    """Groups by what they can teach; `flat` is those without variance."""

    mixed: int = 0
    all_failed: int = 0
    all_alike: int = 0
    """Every episode earned the same, above 0."""
    single: int = 0
    """One episode only, of which nothing is known."""

    @property
    def flat(self) -> int:
        """Groups in which every episode earned the same."""
        return self.all_failed + self.all_alike

    @property
    def flat_share(self) -> float:
        """Of the groups with several episodes."""
        several = self.mixed + self.flat
        return self.flat / several if several else 0.0


def count_groups(rewards: Mapping[str, Sequence[float]]) -> Groups:
    """Counts groups of rewards, by task."""
    counts = dict.fromkeys(("mixed", "all_failed", "all_alike", "single"), 0)
    for group in rewards.values():
        if len(group) < 2:
            counts["single"] += bool(group)
        elif len(set(group)) > 1:
            counts["mixed"] += 1
        else:
            counts["all_alike" if group[0] > 0 else "all_failed"] += 1
    return Groups(**counts)


def draw(
    tasks: Sequence[Task],
    own: Sequence[Task],
    rewards: Mapping[str, Sequence[float]],
    count: int,
    settings: CurriculumSettings,
) -> list[Task]:
    """`count` tasks in the order in which to train on them; `rewards` are those earned so far, by `task_hash`.

    Shares are kept as nearly as whole tasks allow. A task comes again only once its band's others have come.
    Raises UsageError where there is nothing to draw from.
    """
    chance = random.Random(settings.seed)
    bands: dict[Band, list[Task]] = {}
    for task in tasks:
        bands.setdefault(band_of(rewards.get(task.task_hash, ()), settings), []).append(task)
    weights = {band: settings.weights.get(band, 0.0) for band in bands if settings.weights.get(band, 0.0) > 0}
    own_share = (settings.own_share if weights else 1.0) if own else 0.0
    if not weights and not own:
        raise UsageError(
            "no task is left to train on", hint="give a band that has tasks a weight, or other tasks"
        )
    whole = sum(weights.values())
    shares = [(own, own_share)] + [
        (bands[band], (1 - own_share) * weight / whole) for band, weight in weights.items()
    ]
    drawn = [
        task
        for (pool, _), wanted in zip(shares, _whole([share for _, share in shares], count), strict=True)
        for task in _deal(pool, wanted, chance)
    ]
    chance.shuffle(drawn)
    return drawn


def _whole(shares: Sequence[float], count: int) -> list[int]:
    """Whole numbers that sum to `count`, by largest remainders."""
    exact = [share * count for share in shares]
    found = [int(value) for value in exact]
    by_rest = sorted(range(len(shares)), key=lambda at: found[at] - exact[at])
    for at in by_rest[: count - sum(found)]:
        found[at] += 1
    return found


def _deal(pool: Sequence[Task], count: int, chance: random.Random) -> list[Task]:
    dealt: list[Task] = []
    while len(dealt) < count:
        dealt += chance.sample(list(pool), min(len(pool), count - len(dealt)))
    return dealt
