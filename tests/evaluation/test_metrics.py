"""Metrics against values worked out by hand, KernelBench's definition, and properties that must hold of any data."""

import math
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.evaluation.tables import absent, row

from warpsmith.errors import UsageError
from warpsmith.evaluation.bootstrap import means
from warpsmith.evaluation.metrics import (
    by_level,
    costs,
    fast_p,
    fast_p_curve,
    level_weighted,
    listed,
    pass_at_k,
    summary,
    unflagged,
)
from warpsmith.evaluation.row import Against, Answer, Measured, Row, Score, State
from warpsmith.report.published import published
from warpsmith.reward import SpeedupKind
from warpsmith.types import Device, Status

PAPER, MATCHED = SpeedupKind.PAPER, SpeedupKind.MATCHED
HAND = [
    row("a", 4.0, 2.0),
    row("b", 1.0, 0.5),
    row("c", 0.5, 0.25),
    row("d", status=Status.WRONG),
    absent("e"),
]


def test_by_hand() -> None:
    found = summary(HAND, PAPER)
    assert (found.tasks, found.samples) == (5, 5)
    assert found.passed.value == pytest.approx(3 / 5)
    assert found.eager.faster.value == pytest.approx(1 / 5)
    assert found.compile.faster.value == pytest.approx(1 / 5)
    # (4 · 1 · 0.5)^(1/3) over correct ones; the same product over five; and 4 alone above 1, over five
    assert found.eager.geomean.value == pytest.approx(2 ** (1 / 3))
    assert found.eager.geomean_failures_1.value == pytest.approx(2 ** (1 / 5))
    assert found.eager.geomean_fallback.value == pytest.approx(4 ** (1 / 5))
    # (2 · 0.5 · 0.25)^(1/3) = 0.25^(1/3)
    assert found.compile.geomean.value == pytest.approx(0.25 ** (1 / 3))
    assert (found.eager.measured, found.eager.unmeasured) == (3, 0)
    assert found.outcomes == {"passed": 3, "wrong": 1, "missing": 1}
    assert found.best is None


def test_the_geometric_mean_over_correct_solutions_rises_when_a_slow_one_breaks() -> None:
    broken = [*HAND[:2], row("c", status=Status.WRONG), *HAND[3:]]
    before, after = summary(HAND, PAPER), summary(broken, PAPER)
    assert after.eager.geomean.value == pytest.approx(2.0)
    assert after.eager.geomean.value > before.eager.geomean.value
    assert after.passed.value < before.passed.value
    assert after.eager.geomean_fallback.value == pytest.approx(before.eager.geomean_fallback.value)


def test_what_was_not_measured_is_not_zero() -> None:
    found = summary(HAND, MATCHED)
    assert found.eager.faster is None
    assert found.best is not None
    assert (found.best.faster, found.best.geomean, found.best.tied) == (None, None, None)
    assert found.best.unmeasured == 3
    assert found.passed.value == pytest.approx(3 / 5)
    assert fast_p(HAND, 1.0, Against.MATCHED_BEST) is None
    assert fast_p_curve(HAND, Against.MATCHED_BEST) == ()


def test_where_everything_failed_zero_is_measured_on_a_gpu_and_nothing_on_the_simulator() -> None:
    failed = [row("a", status=Status.WRONG), absent("b")]
    assert summary(failed, PAPER).eager.faster.value == 0
    assert summary(failed, PAPER).eager.geomean is None
    assert summary([row("a", status=Status.WRONG, device=Device.SIM)], PAPER).eager.faster is None


def test_a_pass_without_a_time_is_counted_and_never_a_win() -> None:
    found = summary([row("a", 4.0, 4.0), row("b")], PAPER)
    assert (found.eager.measured, found.eager.unmeasured) == (1, 1)
    assert found.eager.faster.value == 0.5
    assert found.eager.geomean.value == pytest.approx(4.0)
    assert found.eager.geomean_failures_1.value == pytest.approx(2.0)


def test_ties_within_noise_stand_apart() -> None:
    rows = [row("a", 1.3, noise=0.1), row("b", 1.05, noise=0.1), row("c", 0.95, noise=0.1), row("d", 1.02)]
    found = summary(rows, PAPER).eager
    assert found.faster.value == 0.75
    assert (found.clearly_faster, found.tied, found.noise_unknown) == (0.25, 0.5, 1)


def test_every_task_weighs_the_same_however_many_samples_it_has() -> None:
    rows = [row("a", 4.0), row("b", 1.0), row("b", status=Status.WRONG, sample=1)]
    rows += [row("b", status=Status.WRONG, sample=2), row("b", 4.0, sample=3)]
    found = summary(rows, PAPER)
    assert (found.tasks, found.samples) == (2, 5)
    assert found.passed.value == pytest.approx((1 + 2 / 4) / 2)
    # of b: (1 · 4)^(1/2) = 2 over its correct samples; of both tasks (4 · 2)^(1/2)
    assert found.eager.geomean.value == pytest.approx(8**0.5)


def test_levels_are_weighed_by_their_tasks_as_in_the_published_overall_row() -> None:
    # Level 1: 4 over one correct of two tasks; level 2: 2 over its one task. Weighed 2 to 1: (4² · 2)^(1/3),
    # while over the two correct solutions it is 8^(1/2).
    rows = [row("a", 4.0), row("b", status=Status.WRONG), row("c", 2.0, level=2)]
    assert level_weighted(rows, Against.PAPER_EAGER) == pytest.approx(32 ** (1 / 3))
    assert summary(rows, PAPER).eager.geomean.value == pytest.approx(8**0.5)
    assert level_weighted([*rows, row("d", status=Status.WRONG, level=3)], Against.PAPER_EAGER) is None
    assert level_weighted([row("a", 4.0, level=None)], Against.PAPER_EAGER) is None


def test_the_published_overall_figures_follow_from_their_levels() -> None:
    levels = {level: published(level) for level in (1, 2, 3)}
    sizes = {1: 100, 2: 100, 3: 50}
    for field in ("pass_pct", "faster_eager_pct", "faster_compile_pct"):
        mean = sum(sizes[n] * getattr(levels[n], field) for n in sizes) / 250
        assert mean == pytest.approx(getattr(published(None), field))
    for field in ("geomean_eager", "geomean_compile"):
        mean = math.exp(sum(sizes[n] * math.log(getattr(levels[n], field)) for n in sizes) / 250)
        assert mean == pytest.approx(getattr(published(None), field), abs=0.005)


def test_the_final_answer_is_scored_beside_the_best() -> None:
    rows = [row("a", 4.0, final=2.0), row("b", 4.0)]
    found = summary(rows, PAPER, Answer.FINAL)
    assert found.passed.value == 0.5
    assert found.eager.geomean.value == pytest.approx(2.0)
    assert found.outcomes == {"passed": 1, "no final answer": 1}


def test_levels_flags_and_what_must_be_listed() -> None:
    rows = [row("a", 2.0), row("b", 2.0, level=3), absent("m", level=2), absent("u", State.UNFINISHED)]
    rows += [row("i", status=Status.INFRASTRUCTURE), row("x", 2.0, level=None)]
    assert {level: len(of) for level, of in by_level(rows).items()} == {None: 6, 1: 3, 2: 1, 3: 1}
    assert [r.task_name for r in listed(rows)] == ["i", "u", "m"]
    flagged = rows[0].model_copy(update={"flags": ("zeros pass",)})
    assert unflagged([flagged, rows[1]]) == [rows[1]]


def test_costs_are_means_over_what_is_known() -> None:
    known = row("a").model_copy(update={"turns": 4, "tokens": 100, "judge_seconds": 2.0})
    found = costs([known, row("b").model_copy(update={"turns": 2})])
    assert (found.turns, found.tokens, found.judge_seconds) == (3.0, 100.0, 2.0)
    assert costs([row("a")]).tokens is None


# ---- KernelBench's fast_p -------------------------------------------------------------------------------------


def test_fast_p_is_kernelbenchs() -> None:
    """Their definition: of n problems, the share that is correct and has baseline / actual strictly above p.

    Times by problem (baseline, actual, correct), in ms: ratios 2, 1, 0.8, (4, but wrong), 1.5. Of 5, above 0: 4;
    above 0.5: 4; above 0.8: 3, since 0.8 is not; above 1: 2; above 1.5: 1; above 2: none.
    Over the four correct ones the geometric mean is (2 · 1 · 0.8 · 1.5)^(1/4) = 2.4^(1/4) = 1.244666.
    """
    times = [(4.0, 2.0, True), (3.0, 3.0, True), (4.0, 5.0, True), (8.0, 2.0, False), (3.0, 2.0, True)]
    rows = [
        row(str(i), base / actual, status=Status.PASSED if correct else Status.WRONG)
        for i, (base, actual, correct) in enumerate(times)
    ]
    found = [fast_p(rows, p) for p in (0.0, 0.5, 0.8, 1.0, 1.5, 2.0)]
    assert found == pytest.approx([0.8, 0.8, 0.6, 0.4, 0.2, 0.0])
    assert summary(rows, PAPER).eager.geomean.value == pytest.approx(1.244666, abs=1e-6)


# ---- pass@k ---------------------------------------------------------------------------------------------------


def samples(name: str, good: int, bad: int) -> list[Row]:
    statuses = [Status.PASSED] * good + [Status.WRONG] * bad
    return [row(name, status=status, sample=i) for i, status in enumerate(statuses)]


def test_pass_at_k_is_the_share_of_draws_with_a_good_one() -> None:
    rows = samples("a", 2, 3) + samples("b", 0, 5)
    for k in range(1, 6):
        draws = list(combinations([1, 1, 0, 0, 0], k))
        assert pass_at_k(rows, k) == pytest.approx(Fraction(sum(map(any, draws)), len(draws)) / 2)
    # 1 - C(3,2)/C(5,2) = 1 - 3/10 of one task, 0 of the other
    assert pass_at_k(rows, 2) == pytest.approx(0.35)


@pytest.mark.parametrize("k", [0, 4])
def test_pass_at_k_of_more_samples_than_there_are_is_refused(k: int) -> None:
    with pytest.raises(UsageError, match="1 to 3"):
        pass_at_k(samples("a", 1, 2) + samples("b", 4, 4), k)


@settings(deadline=None)
@given(st.integers(0, 8), st.integers(0, 8), st.integers(1, 8))
def test_pass_at_k_never_falls_with_k(good: int, more: int, n: int) -> None:
    rows = samples("a", min(good, n), n - min(good, n)) + samples("b", min(more, n), n - min(more, n))
    found = [pass_at_k(rows, k) for k in range(1, n + 1)]
    assert found == sorted(found)
    assert found[0] == pytest.approx((min(good, n) + min(more, n)) / (2 * n))
    assert 0 <= found[-1] <= 1


# ---- properties -----------------------------------------------------------------------------------------------

RATIOS = st.floats(0.01, 100)
ROWS = st.lists(
    st.one_of(RATIOS, st.none(), st.just("wrong"), st.just("missing")), min_size=1, max_size=12
).map(
    lambda values: [
        absent(str(i))
        if value == "missing"
        else row(str(i), status=Status.WRONG)
        if value == "wrong"
        else row(str(i), value, value, matched=value)
        for i, value in enumerate(values)
    ]
)


@settings(max_examples=40, deadline=None)
@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows: list[Row], random) -> None:
    other = list(rows)
    random.shuffle(other)
    first, second = (summary(given, PAPER, resamples=50) for given in (rows, other))
    assert first.model_copy(update={"outcomes": {}}) == second.model_copy(update={"outcomes": {}})
    assert sorted(first.outcomes.items()) == sorted(second.outcomes.items())


@settings(deadline=None)
@given(ROWS)
def test_fast_p_never_rises_with_p_and_begins_at_most_at_the_pass_rate(rows: list[Row]) -> None:
    shares = [point.share for point in fast_p_curve(rows)]
    assert shares == sorted(shares, reverse=True)
    assert all(share <= summary(rows, PAPER, resamples=0).passed.value + 1e-12 for share in shares[:1])


@settings(deadline=None)
@given(ROWS)
def test_geometric_means_lie_within_their_values(rows: list[Row]) -> None:
    side = summary(rows, MATCHED, resamples=0).best
    values = [m.ratio for r in rows if (m := r.measured(Against.MATCHED_BEST))]
    assert side is not None
    if not values:
        assert side.geomean is None
        return
    assert min(values) * (1 - 1e-9) <= side.geomean.value <= max(values) * (1 + 1e-9)
    assert 1 - 1e-9 <= side.geomean_fallback.value <= max(1, *values) * (1 + 1e-9)
    assert side.geomean_failures_1.value <= side.geomean_fallback.value * (1 + 1e-9)
    assert 0 <= side.faster.value <= 1


@settings(deadline=None)
@given(RATIOS, st.integers(1, 8))
def test_the_interval_of_equal_tasks_is_the_value(ratio: float, count: int) -> None:
    found = summary([row(str(i), ratio) for i in range(count)], PAPER, resamples=30)
    for estimate in (found.passed, found.eager.geomean, found.eager.faster):
        assert estimate.low == pytest.approx(estimate.value) == estimate.high


def test_the_bootstrap_draws_tasks_with_all_their_samples_and_is_the_same_every_time() -> None:
    # Both samples of a task agree, so drawing samples would make the interval narrower: tasks are the units.
    tasks = [[row(str(i), 2.0, sample=s) for s in range(2)] for i in range(4)]
    tasks += [[row(str(i), status=Status.WRONG, sample=s) for s in range(2)] for i in range(4, 8)]
    once = [of[0] for of in tasks]
    both = summary([r for of in tasks for r in of], PAPER)
    assert both.passed == summary(once, PAPER).passed
    # Bin(8, 1/2)/8 has P(at most 1 of 8) = 9/256 > 2.5 % and P(0) = 1/256: the ends are 1/8 and 7/8
    assert (both.passed.low, both.passed.high) == (1 / 8, 7 / 8)
    assert summary(once, PAPER, seed=1) == summary(once, PAPER, seed=1)


def test_weightless_tasks_give_no_estimate() -> None:
    assert means({"x": [(0.0, 0.0)]}) == {"x": None}


def test_a_row_twice_and_no_row_at_all_are_refused() -> None:
    with pytest.raises(UsageError, match="twice"):
        summary([row("a", 2.0), row("a", 3.0)], PAPER)
    with pytest.raises(UsageError, match="no tasks"):
        summary([], PAPER)


@pytest.mark.parametrize("time", [0.0, -1.0, math.nan, math.inf])
def test_times_that_cannot_be_are_errors_and_never_wins(time: float) -> None:
    with pytest.raises(ValidationError):
        Measured(ratio=time)
    with pytest.raises(ValidationError):
        Measured(ratio=1.0, low=time, high=1.0)
    with pytest.raises(ValidationError):
        Score(status=Status.PASSED, candidate_ms=time)


def test_only_a_pass_has_a_speedup_and_a_judged_row_a_score() -> None:
    with pytest.raises(ValidationError, match="has no speed-up"):
        Score(status=Status.WRONG, ratios={Against.PAPER_EAGER: Measured(ratio=2.0)})
    with pytest.raises(ValidationError, match="exactly where"):
        Row.model_validate(absent("a").model_dump() | {"state": "judged"})
