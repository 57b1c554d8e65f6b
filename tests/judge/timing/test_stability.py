"""Planted modes, drifts and outliers are told from honest noise, at the rates that docs/design/clock.md names."""

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from warpsmith.judge.timing.stability import (
    Steadiness,
    agrees_with_itself,
    assess,
    baseline_aa,
    halves_ratio,
)

times = st.lists(st.floats(1.0, 1.2), min_size=10, max_size=100)


def honest(source: random.Random, n: int, jitter: float, outliers: float = 0.02) -> list[float]:
    """Lognormal jitter about 1, and now and then a bracket that is 20 to 100 % slower."""
    return [
        math.exp(source.gauss(0, jitter))
        * (1 + source.uniform(0.2, 1.0) if source.random() < outliers else 1.0)
        for _ in range(n)
    ]


def rate(kind: Steadiness | None, trials: int, make: Callable[[random.Random], list[float]]) -> float:
    """How often brackets are judged as `kind`; with None, as anything but stable."""
    kinds = [assess(make(random.Random(i))).kind for i in range(trials)]
    return sum(k is kind if kind else k is not Steadiness.STABLE for k in kinds) / trials


@pytest.mark.parametrize(("n", "most"), [(10, 0.02), (20, 0.01), (30, 0.01), (60, 0.01)])
@pytest.mark.parametrize("jitter", [0.003, 0.02])
def test_honest_noise_is_stable(n: int, most: float, jitter: float) -> None:
    assert rate(None, 300, lambda source: honest(source, n, jitter)) <= most


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
@pytest.mark.parametrize(("n", "least"), [(10, 0.7), (20, 0.93), (30, 0.93), (100, 0.98)])
def test_two_times_eight_percent_apart_are_told(n: int, least: float, share: float) -> None:
    def two(source: random.Random) -> list[float]:
        slow = set(source.sample(range(n), round(share * n)))
        return [v * 1.08 if i in slow else v for i, v in enumerate(honest(source, n, 0.01))]

    assert rate(Steadiness.BIMODAL, 120 if n < 100 else 40, two) >= least


@pytest.mark.parametrize(("n", "jitter", "least"), [(10, 0.003, 0.93), (20, 0.01, 0.9), (30, 0.01, 0.95)])
def test_a_drift_of_five_percent_is_told(n: int, jitter: float, least: float) -> None:
    def drifting(source: random.Random) -> list[float]:
        return [v * (1 + 0.05 * i / (n - 1)) for i, v in enumerate(honest(source, n, jitter))]

    assert rate(Steadiness.DRIFTING, 120, drifting) >= least


def test_scattered_outliers_are_a_disturbance_and_their_reason_says_how_many() -> None:
    samples = [1.0, 1.3, 1.0, 1.01, 2.0, 1.0, 0.99, 3.9, 1.0, 1.01, 1.0, 0.5]
    found = assess(samples)
    assert found.kind is Steadiness.DISTURBED
    assert found.reason == "4 of 12 brackets lie more than 25 % from the median"


def test_wide_noise_is_noise() -> None:
    source = random.Random(3)
    found = assess([math.exp(source.gauss(0, 0.35)) for _ in range(20)])
    assert found.kind is Steadiness.NOISY
    assert found.reason.startswith("the median's standard error is ")


def test_reasons_say_how_far_apart_and_how_much() -> None:
    assert assess([1.0, 1.1] * 10).reason == "10 of 20 brackets are 10.0 % slower than the others"
    assert assess([1.01**i for i in range(21)]).reason == "times change by +22.0 % over the run"


@settings(max_examples=40)
@given(times, st.floats(1e-6, 1e6))
def test_the_unit_does_not_matter(samples: list[float], scale: float) -> None:
    # Numbers within a rounding error of a threshold may fall to either side of it.
    assume(len({round(v, 6) for v in samples}) == len(samples))
    assert assess([v * scale for v in samples]).kind is assess(samples).kind


@given(times, st.randoms(use_true_random=False))
def test_the_order_matters_for_a_drift_alone(samples: list[float], source: random.Random) -> None:
    shuffled = source.sample(samples, len(samples))
    kinds = {assess(samples).kind, assess(shuffled).kind}
    assert len(kinds) == 1 or Steadiness.DRIFTING in kinds


@given(st.floats(1e-6, 1e6), st.integers(10, 100))
def test_constant_times_are_stable(value: float, n: int) -> None:
    assert assess([value] * n).stable


@given(st.integers(10, 100), st.floats(1e-3, 1e3), st.integers(0, 99), st.integers(0, 50))
def test_one_outlier_decides_nothing(n: int, outlier: float, place: int, seed: int) -> None:
    samples = honest(random.Random(seed), n, 0.001, outliers=0.0)
    samples[place % n] = outlier
    assert assess(samples).stable


@pytest.mark.parametrize(
    "samples", [[1.0] * 4, [1.0] * 9 + [0.0], [1.0] * 9 + [math.inf], [1.0] * 9 + [math.nan]]
)
def test_what_is_no_measurement_is_refused(samples: list[float]) -> None:
    with pytest.raises(ValueError, match="5 positive times"):
        assess(samples)


def test_a_baseline_that_jumps_half_way_does_not_agree_with_itself() -> None:
    assert halves_ratio([1.0, 1.0, 2.0, 2.0]) == 2.0
    steady = [1.0, 1.001, 0.999, 1.0, 1.002] * 4
    jumps = steady[:10] + [1.03 * v for v in steady[10:]]
    assert agrees_with_itself(steady).stable
    assert agrees_with_itself(jumps).kind is Steadiness.DRIFTING
    assert agrees_with_itself([1.0, 1.1] * 10).kind is Steadiness.BIMODAL


def test_every_baseline_must_agree_with_itself() -> None:
    steady = [1.0, 1.001] * 10
    assert baseline_aa({"eager": steady, "compile": steady}).passed
    assert baseline_aa({"eager": steady, "compile": steady}).check == "baseline_aa"
    failed = baseline_aa({"eager": steady, "compile": [1.0, 1.1] * 10})
    assert not failed.passed
    assert "compile is bimodal: 10 of 20 brackets are 10.0 % slower" in failed.detail
    assert not baseline_aa({}).passed
