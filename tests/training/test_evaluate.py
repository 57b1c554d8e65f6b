"""Rates and their intervals."""

from hypothesis import given
from hypothesis import strategies as st

from warpsmith.training.evaluate import Rate, rate


def test_each_task_weighs_the_same() -> None:
    found = rate({"a": [1, 1, 1, 1, 1, 1], "b": [-1]}, 0.0)
    assert (found.mean, found.tasks, found.samples) == (0.5, 2, 7)
    # two tasks drawn again: 0, ½ or 1
    assert (found.low, found.high) == (0.0, 1.0)


def test_thresholds() -> None:
    rewards = {"a": [-1, 1], "b": [2, 3]}
    assert [rate(rewards, above).mean for above in (0.0, 1.0, 2.0)] == [0.75, 0.5, 0.25]


def test_no_spread_has_no_interval_and_nothing_knows_nothing() -> None:
    assert rate({"a": [1], "b": [1]}, 0.0) == Rate(mean=1, low=1, high=1, tasks=2, samples=2)
    assert rate({}, 0.0) == Rate(mean=0, low=0, high=1, tasks=0, samples=0)


def test_the_interval_of_many_tasks_is_that_of_the_binomial() -> None:
    found = rate({str(n): [1.0 if n % 2 else -1.0] for n in range(400)}, 0.0)
    # 1.96 · √(0.25 / 400) = 0.049
    assert abs(found.low - 0.451) < 0.01 and abs(found.high - 0.549) < 0.01


@given(
    st.dictionaries(
        st.text(max_size=3), st.lists(st.sampled_from([-1.0, 1.0, 2.0, 3.0]), min_size=1), min_size=1
    )
)
def test_the_mean_lies_within(rewards: dict[str, list[float]]) -> None:
    found = rate(rewards, 0.0, draws=200)
    assert 0 <= found.low <= found.high <= 1
