import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.judge.timing.clock import (
    BRACKET_MS,
    MAX_CALLS,
    MEDIUM_CALLS,
    MEDIUM_MS,
    NullCost,
    Samples,
    brackets_wanted,
    calls_per_bracket,
    late_ms,
    quantile,
    time_stats,
    unsteady_null,
    with_kernels,
)

times = st.floats(1e-3, 1e4)


def test_a_brackets_null_cost_is_taken_once_and_shared_by_its_calls() -> None:
    stats = time_stats(Samples(4, (4.1, 8.1, 6.1), (4.0, 8.0, 6.0)), null_ms=0.1)
    assert stats.samples_ms == (1.0, 2.0, 1.5)
    assert (stats.median_ms, stats.min_ms, stats.raw_median_ms) == pytest.approx((1.5, 1.0, 6.1))
    assert stats.device_median_ms == 1.5
    assert stats.calls == 12 and stats.calls_per_bracket == 4
    assert not stats.launch_bound


def test_below_five_times_the_null_cost_is_launch_bound() -> None:
    assert time_stats(Samples(1, (0.49,)), null_ms=0.1).launch_bound
    assert not time_stats(Samples(1, (0.51,)), null_ms=0.1).launch_bound


def test_kernels_that_run_for_less_than_half_of_the_time_make_it_launch_bound() -> None:
    stats = time_stats(Samples(10, (10.1,)), null_ms=0.1)
    assert with_kernels(stats, None) == stats
    half, less = with_kernels(stats, 0.5), with_kernels(stats, 0.4)
    assert (half.launch_bound, half.launches_ms) == (False, 0.5)
    assert (less.launch_bound, less.launches_ms) == (True, pytest.approx(0.6))
    assert with_kernels(stats, 1.5).launches_ms == 0.0


def test_time_is_never_zero_or_negative() -> None:
    assert time_stats(Samples(1, (0.05, 0.06)), null_ms=0.1).median_ms > 0


@given(st.lists(times, min_size=1, max_size=40), st.integers(1, MAX_CALLS), st.floats(0, 1))
def test_statistics_are_ordered_and_positive(raw: list[float], calls: int, null: float) -> None:
    stats = time_stats(Samples(calls, tuple(raw)), null)
    assert 0 < stats.min_ms <= stats.p25_ms <= stats.median_ms <= stats.p75_ms


@given(times)
def test_short_calls_share_a_bracket_and_long_ones_do_not(call_ms: float) -> None:
    calls = calls_per_bracket(call_ms)
    assert 1 <= calls <= MAX_CALLS
    if calls < MAX_CALLS:
        assert calls * call_ms >= BRACKET_MS * 0.66
    if call_ms > MEDIUM_MS:
        assert calls == 1
    else:
        assert calls >= MEDIUM_CALLS


@given(st.integers(10, 100), st.integers(1, MAX_CALLS), st.floats(0, 60), st.floats(0.1, 60))
def test_ten_to_a_hundred_brackets_within_the_budget(
    wanted: int, calls: int, each: float, budget: float
) -> None:
    n = brackets_wanted(wanted, calls, each, budget)
    assert 10 <= n <= 100
    assert n == 10 or n * each <= budget + 1e-6
    assert n <= max(20, -(-wanted // calls))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_quantiles_bound_the_values(values: list[float]) -> None:
    assert quantile(values, 0.0) == min(values)
    assert quantile(values, 1.0) == max(values)
    assert min(values) <= quantile(values, 0.5) <= max(values)


@given(st.floats(0, 100), st.integers(0, 64))
def test_work_put_off_until_the_outputs_are_named_is_paid_for(hidden_ms: float, outputs: int) -> None:
    honest = 0.1 + 0.026 * outputs
    assert late_ms(honest, outputs) == 0
    assert late_ms(honest + hidden_ms, outputs) >= hidden_ms - 0.2 - 0.004 * outputs - 1e-9


def test_the_slowest_of_a_hundred_brackets_is_told() -> None:
    stats = time_stats(Samples(1, tuple(float(i) for i in range(1, 102))), 0.0)
    assert (stats.median_ms, stats.p99_ms) == (51.0, 100.0)


def test_a_null_cost_that_varies_as_much_as_the_time_is_told() -> None:
    null = NullCost.of([0.1, 0.2, 0.3, 0.4, 0.5])
    assert null == NullCost(0.3, 0.2, 0.4)
    long, short = (time_stats(Samples(1, (ms,) * 10, null=null), null.median_ms) for ms in (10.0, 1.0))
    assert (long.null_p25_ms, long.null_p75_ms) == (0.2, 0.4)
    assert unsteady_null(long) == ""
    assert unsteady_null(short) == (
        "the null bracket is unsteady: 0.2 to 0.4 ms (quartiles) of brackets of 1 ms"
    )
    assert unsteady_null(time_stats(Samples(1, (1.0,) * 10), 0.3)) == ""
