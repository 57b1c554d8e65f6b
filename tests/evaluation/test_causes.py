"""What costs most by cause, against values worked out by hand."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evaluation.tables import absent, row

from warpsmith.errors import UsageError
from warpsmith.evaluation.causes import Cause, Cost, cause_of, costs_by_cause
from warpsmith.evaluation.metrics import summary
from warpsmith.evaluation.row import Row, State
from warpsmith.reward import SpeedupKind
from warpsmith.types import Status, StopReason

PAPER, MATCHED = SpeedupKind.PAPER, SpeedupKind.MATCHED


def scored(one: Row, **fields: object) -> Row:
    """The row with other fields of its score."""
    assert one.best is not None
    return one.model_copy(update={"best": one.best.model_copy(update=fields)})


def ended(name: str, stop: StopReason, *left: str) -> Row:
    """A row of an episode that put nothing before the judge."""
    return absent(name, State.NOTHING_SUBMITTED).model_copy(update={"stop": stop, "left": left})


def costs(rows: list[Row], kind: SpeedupKind = PAPER) -> dict[tuple[Cause, str], Cost]:
    return {(cost.cause, cost.what): cost for cost in costs_by_cause(rows, kind)}


def test_by_hand() -> None:
    """Eight tasks: 4× and 1× are their geomean's 2×; two slower, three failed, one never begun."""
    rows = [
        row("quick", 4.0, 4.0),
        row("quicker", 1.01, 1.0 + 1e-12),
        scored(row("small", 0.5, 0.5), launch_bound=True),
        scored(row("also small", 0.5, 0.25, noise=0.1), launch_bound=True),
        ended("net a", StopReason.FINISHED, "aten.lstm.input"),
        ended("net b", StopReason.FINISHED, "aten.lstm.input"),
        row("off", status=Status.WRONG).model_copy(update={"detail": "differs at out[3]"}),
        absent("late"),
    ]
    found = costs(rows)
    assert list(found) == [
        (Cause.LAUNCHES, ""),
        (Cause.NOT_COVERED, "aten.lstm.input"),
        (Cause.MISSING, ""),
        (Cause.WRONG, ""),
    ]
    slow, uncovered = found[Cause.LAUNCHES, ""], found[Cause.NOT_COVERED, "aten.lstm.input"]
    # the faster ones' geomean is 2: ln 2 + ln 2 (from 0.5) and ln 2 + ln 4 (from 0.25), over 8 tasks
    assert slow.geomean == pytest.approx(2 ** (5 / 8))
    assert (slow.samples, slow.tied, slow.passed, slow.faster) == (2, 0, 0.0, 0.25)
    assert slow.tasks == ("also small", "small")
    # failures count as 1: two of eight tasks would bring the factor 2 each
    assert uncovered.geomean == pytest.approx(2 ** (2 / 8))
    assert (uncovered.samples, uncovered.passed, uncovered.faster) == (2, 0.25, 0.25)
    wrong = found[Cause.WRONG, ""]
    assert (wrong.passed, wrong.faster, wrong.example) == (0.125, 0.125, "differs at out[3]")
    assert wrong.geomean == pytest.approx(2 ** (1 / 8))


def test_a_task_of_two_samples_weighs_as_one_of_one() -> None:
    rows = [row("a", 2.0, 2.0), row("b", 2.0, 2.0), row("b", status=Status.TIMED_OUT, sample=1)]
    (cost,) = costs_by_cause(rows, PAPER)
    assert (cost.cause, cost.samples, cost.passed) == (Cause.TIMED_OUT, 1, 0.25)
    assert cost.geomean == pytest.approx(2**0.25)


def test_ties_within_noise_are_counted_apart() -> None:
    rows = [row("even", 1.2, 0.99, noise=0.05), row("behind", 1.2, 0.9, noise=0.05), row("ahead", 2.0, 2.0)]
    (cost,) = costs_by_cause(rows, PAPER)
    assert (cost.cause, cost.samples, cost.tied) == (Cause.SLOWER, 2, 1)


def test_each_protocol_has_its_own_side() -> None:
    rows = [row("a", 2.0, 2.0, matched=0.5), row("b", 2.0, 0.5, matched=2.0)]
    assert costs_by_cause(rows, PAPER)[0].tasks == ("b",)
    assert costs_by_cause(rows, MATCHED)[0].tasks == ("a",)


def test_without_any_time_only_failures_count_and_cost_no_speed() -> None:
    rows = [row("a"), row("b"), row("c", status=Status.WRONG), row("d", status=Status.CRASHED)]
    found = costs(rows)
    assert list(found) == [(Cause.WRONG, ""), (Cause.CRASHED, "")]
    wrong = found[Cause.WRONG, ""]
    assert (wrong.passed, wrong.faster, wrong.geomean) == (0.25, None, None)
    # one that passed and has no ratio where others have one is no win
    (untimed,) = costs_by_cause([row("a"), row("b", 2.0, 2.0)], PAPER)
    assert (untimed.cause, untimed.passed, untimed.faster) == (Cause.UNTIMED, 0.0, 0.5)


def test_where_nothing_is_faster_nothing_says_what_there_was_to_gain() -> None:
    (cost,) = costs_by_cause([row("a", 0.5, 0.5)], PAPER)
    assert (cost.faster, cost.geomean) == (1.0, None)
    with pytest.raises(UsageError, match="there are no tasks"):
        costs_by_cause([], PAPER)


@pytest.mark.parametrize(
    ("one", "cause", "what"),
    [
        (absent("a"), Cause.MISSING, ""),
        (absent("a", State.UNFINISHED), Cause.LOST, ""),
        (row("a", status=Status.INFRASTRUCTURE), Cause.LOST, ""),
        (row("a", status=Status.TASK_REFUSED), Cause.TASK, ""),
        (ended("a", StopReason.TASK_REFUSED), Cause.TASK, ""),
        (ended("a", StopReason.TASK_UNSUPPORTED), Cause.UNSUPPORTED, ""),
        (row("a", status=Status.UNSUPPORTED), Cause.UNSUPPORTED, ""),
        (ended("a", StopReason.FINISHED, "aten.lu", "aten.qr"), Cause.NOT_COVERED, "aten.lu, aten.qr"),
        (ended("a", StopReason.TURN_LIMIT), Cause.NOTHING, "turn limit"),
        (ended("a", StopReason.POLICY_FAILED), Cause.NOTHING, "policy failed"),
        (scored(row("a", status=Status.CHEATED), check="side_stream"), Cause.CHEATED, "side_stream"),
        (
            row("a", status=Status.CHEATED).model_copy(update={"left": ("aten.lu",)}),
            Cause.NOT_COVERED,
            "aten.lu",
        ),
        (row("a", status=Status.COMPILE_FAILED), Cause.COMPILE_FAILED, ""),
        (row("a", status=Status.UNSTABLE), Cause.UNSTABLE, ""),
        (row("a", 0.9, 0.9), Cause.SLOWER, ""),
        (row("a", 0.9, 0.9).model_copy(update={"left": ("aten.lu",)}), Cause.LEFT, "aten.lu"),
        (scored(row("a", 0.9, 0.9), launch_bound=True, compute_bound=True), Cause.LAUNCHES, ""),
        (scored(row("a", 0.9, 0.9), compute_bound=True, floor_share=0.1), Cause.PRODUCTS, ""),
        (scored(row("a", 0.9, 0.9), library_share=0.5, floor_share=0.9), Cause.PRODUCTS, ""),
        (scored(row("a", 0.9, 0.9), library_share=0.4, floor_share=0.49), Cause.FAR, ""),
        (scored(row("a", 0.9, 0.9), compute_bound=False, floor_share=0.5), Cause.NEAR, ""),
        (row("a", 0.9, 1.0), Cause.SLOWER, ""),
    ],
)
def test_the_first_cause_that_holds(one: Row, cause: Cause, what: str) -> None:
    assert cause_of(one, PAPER) == (cause, what)


def test_every_status_but_a_pass_has_a_cause() -> None:
    for status in set(Status) - {Status.PASSED}:
        assert cause_of(row("a", status=status), PAPER) is not None
    assert cause_of(row("a", 1.1, 1.001), PAPER) is None


RATIOS = st.one_of(st.none(), st.floats(0.01, 100.0))


@given(
    st.lists(
        st.tuples(RATIOS, st.integers(1, 3), st.sampled_from([Status.PASSED, Status.WRONG])),
        min_size=1,
        max_size=12,
    ),
    st.integers(0, 1 << 30),
)
def test_all_causes_together_are_what_is_missing(
    made: list[tuple[float | None, int, Status]], seed: int
) -> None:
    """Shares lead from the rate to 1, factors from the mean over everything to that of the faster ones."""
    rows = [
        row(f"t{i}", ratio, ratio, status=status, sample=sample)
        for i, (ratio, samples, status) in enumerate(made)
        for sample in range(samples)
    ]
    found, told = costs_by_cause(rows, PAPER), summary(rows, PAPER, resamples=0)
    assert math.fsum(cost.passed for cost in found) == pytest.approx(1 - told.passed.value)
    if told.compile.faster is not None and found and found[0].faster is not None:
        assert math.fsum(cost.faster or 0.0 for cost in found) == pytest.approx(1 - told.compile.faster.value)
    if told.compile.geomean_failures_1 and all(cost.geomean for cost in found):
        good = [r for r in rows if cause_of(r, PAPER) is None]
        total = told.compile.geomean_failures_1.value * math.prod(cost.geomean or 0.0 for cost in found)
        if good:
            counts = {r.task_key: sum(o.task_key == r.task_key for o in rows) for r in good}
            weights = [1 / counts[r.task_key] for r in good]
            logs = [math.log(r.best.ratios[k].ratio) for r in good if r.best for k in r.best.ratios if "compile" in k
                    and k.kind is PAPER]  # fmt: skip
            aim = math.fsum(w * v for w, v in zip(weights, logs, strict=True)) / math.fsum(weights)
            assert total == pytest.approx(math.exp(aim))
    shuffled = rows[:]
    random.Random(seed).shuffle(shuffled)
    again = costs_by_cause(shuffled, PAPER)
    assert [(c.cause, c.samples) for c in again] == [(c.cause, c.samples) for c in found]
