"""Bands, shares and groups."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.errors import UsageError
from warpsmith.training.curriculum import Band, CurriculumSettings, Groups, band_of, count_groups, draw
from warpsmith.types import Task

SETTINGS = CurriculumSettings()


def tasks(prefix: str, count: int) -> list[Task]:
    return [Task(name=f"{prefix}{n}", code=f"{prefix}{n}") for n in range(count)]


@pytest.mark.parametrize(
    ("rewards", "band"),
    [
        ([], Band.UNTRIED),
        ([-1, -1], Band.UNSOLVED),
        ([1, 3], Band.SOLVED),
        ([1, -1, -1, -1], Band.HARD),
        ([1, -1], Band.MEDIUM),
        ([1] * 7 + [-1] * 3, Band.EASY),
        ([1] * 3 + [-1] * 7, Band.MEDIUM),
    ],
)
def test_bands(rewards: list[float], band: Band) -> None:
    assert band_of(rewards, SETTINGS) is band


def test_groups() -> None:
    found = count_groups({"a": [1, 1], "b": [-1, -1], "c": [1, 2], "d": [3], "e": [], "f": [-1, 1]})
    assert found == Groups(mixed=2, all_failed=1, all_alike=1, single=1)
    assert (found.flat, found.flat_share) == (2, 0.5)


def rewards_of(pool: dict[Band, list[Task]]) -> dict[str, list[float]]:
    earned: dict[Band, list[float]] = {
        Band.UNSOLVED: [-1, -1],
        Band.MEDIUM: [1, -1],
        Band.SOLVED: [1, 1],
        Band.HARD: [1, -1, -1, -1],
        Band.EASY: [1, 1, 1, -1],
    }
    return {t.task_hash: earned[band] for band, ts in pool.items() if band in earned for t in ts}


def test_shares_are_kept() -> None:
    pool = {band: tasks(band.value, 5) for band in Band}
    settings = CurriculumSettings(weights={Band.MEDIUM: 3.0, Band.HARD: 1.0, Band.SOLVED: 0.0}, own_share=0.2)
    own = tasks("own", 2)
    everything = [t for ts in pool.values() for t in ts]
    drawn = draw(everything, own, rewards_of(pool), 20, settings)
    counts = Counter(t.name.rstrip("0123456789") for t in drawn)
    assert counts == {"own": 4, "medium": 12, "hard": 4}
    assert Counter(t.name for t in drawn if t.name.startswith("own")) == {"own0": 2, "own1": 2}
    assert drawn == draw(everything, own, rewards_of(pool), 20, settings)
    assert drawn != draw(everything, own, rewards_of(pool), 20, settings.model_copy(update={"seed": 1}))


def test_a_band_without_tasks_leaves_its_share_to_the_others() -> None:
    drawn = draw(tasks("new", 3), [], {}, 7, SETTINGS)
    assert sorted(Counter(t.name for t in drawn).values()) == [2, 2, 3]


def test_own_tasks_alone_will_do() -> None:
    own = tasks("own", 1)
    assert draw([], own, {}, 2, SETTINGS) == own * 2


def test_nothing_to_draw_from() -> None:
    solved = tasks("s", 1)
    with pytest.raises(UsageError, match="no task is left"):
        draw(solved, [], {solved[0].task_hash: [1, 1]}, 4, SETTINGS)


@given(st.integers(0, 40), st.floats(0, 1), st.lists(st.sampled_from(list(Band)), min_size=1, max_size=12))
def test_as_many_as_asked_for(count: int, own_share: float, bands: list[Band]) -> None:
    pool: dict[Band, list[Task]] = {}
    for n, band in enumerate(bands):
        pool.setdefault(band, []).append(Task(name=f"{band}{n}", code=str(n)))
    settings = CurriculumSettings(weights=dict.fromkeys(Band, 1.0), own_share=own_share)
    own = tasks("own", 2)
    drawn = draw([t for ts in pool.values() for t in ts], own, rewards_of(pool), count, settings)
    assert len(drawn) == count
    assert abs(sum(t in own for t in drawn) - own_share * count) <= 1
