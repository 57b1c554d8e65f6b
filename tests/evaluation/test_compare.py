"""Paired comparison against values worked out by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.evaluation.tables import row

from warpsmith.errors import UsageError
from warpsmith.evaluation.compare import compared, paired_geomean, paired_mean
from warpsmith.types import Status


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


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1), min_size=1, max_size=6))
def test_order_does_not_matter(values: dict[str, float]) -> None:
    other = dict.fromkeys(values, 0.5)
    assert paired_mean("x", values, other) == paired_mean("x", dict(reversed(values.items())), other)


def test_two_runs_are_compared_over_common_tasks_with_samples_averaged_first() -> None:
    first = [row("a", 2.0, 2.0), row("b", status=Status.WRONG), row("c", 4.0, 4.0), row("only", 9.0, 9.0)]
    second = [
        row("a", 4.0, 4.0),
        row("a", status=Status.WRONG, sample=1),
        row("b", 4.0, 0.5),
        row("c", 8.0, 8.0),
    ]
    found = {p.name: p for p in compared(first, second)}
    assert list(found) == [
        "pass rate",
        "faster, paper, vs eager",
        "geomean with fallback, paper, vs eager",
        "geomean where both are correct, paper, vs eager",
        "faster, paper, vs compile",
        "geomean with fallback, paper, vs compile",
        "geomean where both are correct, paper, vs compile",
    ]
    # of a, b, c: 1, 0, 1 against 1/2, 1, 1
    assert (found["pass rate"].tasks, found["pass rate"].first) == (3, pytest.approx(2 / 3))
    assert found["pass rate"].second == pytest.approx(2.5 / 3)
    # where both are correct: a is 2 against 4, c is 4 against 8
    both = found["geomean where both are correct, paper, vs eager"]
    assert (both.tasks, both.difference, both.significant) == (2, pytest.approx(2.0), True)
    # with fallback: a is 2 against (4 · 1)^(1/2), b is 1 against 4, c is 4 against 8
    fallback = found["geomean with fallback, paper, vs eager"]
    assert fallback.difference == pytest.approx((1 * 4 * 2) ** (1 / 3))
    assert found["geomean with fallback, paper, vs compile"].difference == pytest.approx(
        (1 * 1 * 2) ** (1 / 3)
    )


def test_runs_without_a_common_task_cannot_be_compared() -> None:
    with pytest.raises(UsageError, match="no task in common"):
        compared([row("a", 2.0)], [row("b", 2.0)])
