"""Figures worked out by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.training.instruments import (
    clip_fractions,
    explained_variance,
    guarded_ratios,
    length_clip_ratio,
    milestones,
    mismatch,
    percentile,
)


def test_explained_variance() -> None:
    assert explained_variance([1, 2, 3], [1, 2, 3]) == 1.0
    assert explained_variance([2, 2, 2], [1, 2, 3]) == 0.0
    # residuals −2, 0, 2 have variance 8/3, the returns 2/3
    assert explained_variance([3, 2, 1], [1, 2, 3]) == pytest.approx(-3.0)
    assert math.isnan(explained_variance([0, 1], [5, 5]))
    assert math.isnan(explained_variance([], []))


def test_clips_count_only_where_they_stop_a_gradient() -> None:
    ratios = [0.79, 0.79, 0.81, 1.29, 1.29, 1.27, 1.0, 1.0]
    gains = [-1, 1, -1, 1, -1, 1, 1, -1]
    assert clip_fractions(ratios, gains, 0.2, 0.28) == (1 / 8, 1 / 8)
    assert clip_fractions([], [], 0.2, 0.28) == (0.0, 0.0)


def test_length() -> None:
    assert length_clip_ratio([10, 9, 10, 3], 10) == 0.5
    assert length_clip_ratio([], 10) == 0.0


def test_milestones() -> None:
    found = milestones([-1.0, -1.0, 3.0, None])
    assert found == {"reward/-1": 0.5, "reward/1": 0, "reward/2": 0, "reward/3": 0.25, "reward/none": 0.25}
    assert milestones([-1.0, 1.37, 0.8, None]) == {
        "reward/positive": 0.5,
        "reward/not_positive": 0.25,
        "reward/none": 0.25,
    }


def test_mismatch() -> None:
    found = mismatch([math.log(0.5), math.log(0.25)], [math.log(0.25), math.log(0.5)])
    assert found["mismatch/kl"] == pytest.approx(0.0)
    assert found["mismatch/mean_abs"] == found["mismatch/max_abs"] == pytest.approx(0.25)
    assert found["ratio/p50"] == pytest.approx(1.25)  # between 0.5 and 2
    assert found["ratio/p99.9"] == pytest.approx(1.9985)
    assert mismatch([math.log(0.5)], [math.log(0.25)])["mismatch/kl"] == pytest.approx(math.log(2))
    assert mismatch([], []) == {}


def test_the_guard_cuts_large_ratios_only() -> None:
    ratios, cut = guarded_ratios([-3.0, -1.0, -2.0], [-1.0, -3.0, -2.0], 2.0)
    assert ratios == pytest.approx([2.0, math.exp(-2), 1.0]) and cut == pytest.approx(1 / 3)


def test_a_vanished_probability_overflows_nothing() -> None:
    assert guarded_ratios([-1e9], [0.0], 2.0) == ([2.0], 1.0)
    assert math.isfinite(mismatch([-1e9], [0.0])["ratio/p50"])


def test_percentiles() -> None:
    assert [percentile([1, 2, 3, 4, 5], p) for p in (0, 25, 50, 90, 100)] == [1, 2, 3, pytest.approx(4.6), 5]
    assert percentile([7], 99) == 7


@given(st.lists(st.tuples(st.floats(0.01, 5), st.floats(-2, 2)), min_size=1))
def test_clip_fractions_agree_with_the_gradient(pairs: list[tuple[float, float]]) -> None:
    """PPO's objective min(r·Â, clip(r)·Â) has no gradient in r exactly where it is counted."""
    low, high = 0.2, 0.28
    flat = 0
    for ratio, gain in pairs:
        clipped = min(max(ratio, 1 - low), 1 + high)
        flat += clipped * gain < ratio * gain
    below, above = clip_fractions([r for r, _ in pairs], [g for _, g in pairs], low, high)
    assert (below + above) * len(pairs) == pytest.approx(flat)
