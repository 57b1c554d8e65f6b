"""Paired comparison against values worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.errors import UsageError
from warpsmith.evaluation.compare import paired_geomean, paired_mean


def test_equal_runs_do_not_differ() -> None:
    runs = {"a": 1.0, "b": 0.0}
    found = paired_mean("pass", runs, runs)
    assert (found.difference, found.low, found.high, found.significant) == (0, 0, 0, False)


def test_a_constant_gain_is_significant_and_only_common_tasks_count() -> None:
    found = paired_geomean("x", {"a": 1.0, "b": 2.0, "c": 9.0}, {"a": 2.0, "b": 4.0})
    assert found.tasks == 2
    assert found.difference == pytest.approx(2.0)
    assert found.second == pytest.approx(8**0.5)
    assert found.significant


def test_one_task_of_many_is_noise() -> None:
    first = {str(i): 1.0 for i in range(10)}
    assert not paired_mean("x", first, {**first, "0": 0.0}).significant


@pytest.mark.parametrize("second", [{}, {"a": 0.0}, {"a": -1.0}, {"a": float("nan")}])
def test_what_has_no_geometric_mean_is_refused(second: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        paired_geomean("x", {"a": 1.0}, second)


@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1), min_size=1, max_size=6))
def test_order_does_not_matter(values: dict[str, float]) -> None:
    other = dict.fromkeys(values, 0.5)
    assert paired_mean("x", values, other) == paired_mean("x", dict(reversed(values.items())), other)
