import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.judge.timing.clock import NullCost, Samples
from warpsmith.judge.timing.ratio import Interleaved, bootstrap, near_threshold

times = st.lists(st.floats(0.5, 2.0), min_size=10, max_size=40)


@pytest.mark.parametrize(
    ("ratio", "near"), [(0.89, False), (0.91, True), (1.0, True), (1.05, True), (1.15, True), (1.16, False)]
)
def test_within_ten_percent_of_one_and_of_the_margin_is_measured_again(ratio: float, near: bool) -> None:
    assert near_threshold(ratio) is near


def test_is_the_ratio_of_the_medians_with_an_interval_around_it() -> None:
    source = random.Random(1)
    mine = [1.0 + source.gauss(0, 0.01) for _ in range(30)]
    theirs = [1.5 + source.gauss(0, 0.015) for _ in range(30)]
    found = bootstrap(mine, theirs)
    assert found.ratio == pytest.approx(1.5, rel=0.01)
    assert found.low < found.ratio < found.high
    assert found.high - found.low < 0.04


def test_what_changes_for_both_at_once_cancels() -> None:
    source = random.Random(2)
    common = [source.uniform(0.7, 1.3) for _ in range(31)]
    found = bootstrap([2.0 * c for c in common], [3.0 * c for c in common])
    assert found.low == pytest.approx(1.5) and found.high == pytest.approx(1.5)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    held = 0
    for seed in range(100):
        source = random.Random(seed)
        mine, theirs = ([source.lognormvariate(0, 0.02) for _ in range(30)] for _ in range(2))
        found = bootstrap(mine, theirs)
        held += found.low <= 1.0 <= found.high
    assert held >= 88


@settings(max_examples=25)
@given(times, times)
def test_holds_its_ratio_repeats_itself_and_turns_round(mine: list[float], theirs: list[float]) -> None:
    found = bootstrap(mine, theirs)
    assert found.low <= found.ratio * (1 + 1e-9) and found.ratio <= found.high * (1 + 1e-9)
    assert bootstrap(mine, theirs) == found
    assert bootstrap(theirs, mine).ratio == pytest.approx(1 / found.ratio)


def test_the_null_cost_is_taken_from_both() -> None:
    found = Interleaved(Samples(2, (2.2,) * 10), Samples(2, (3.2,) * 10), NullCost(0.2, 0.2, 0.2)).interval()
    assert (found.ratio, found.low, found.high) == pytest.approx((1.5, 1.5, 1.5))


@pytest.mark.parametrize(("mine", "theirs"), [([], [1.0]), ([1.0], []), ([0.0], [1.0])])
def test_nothing_has_no_ratio(mine: list[float], theirs: list[float]) -> None:
    with pytest.raises(ValueError, match="positive times of both"):
        bootstrap(mine, theirs)
