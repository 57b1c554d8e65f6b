"""Verdict -> Reward."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.reward import BASELINE_AA_CHECK, MARGIN, REWARDS, SpeedupKind, reward_of
from warpsmith.types import (
    STATUS_TABLE,
    BaselineKind,
    CheckOutcome,
    Device,
    ErrorStats,
    MatchedSpeedup,
    MenuTime,
    PaperSpeedup,
    Phase,
    RewardRule,
    Rules,
    Speedup,
    Status,
    TimeStats,
    Timings,
    Verdict,
)


def verdict(
    status: Status = Status.PASSED,
    *,
    device: Device = Device.CUDA,
    speedup: Speedup | None = None,
    checks: tuple[CheckOutcome, ...] = (),
) -> Verdict:
    passed = status in (Status.PASSED, Status.UNSTABLE)
    return Verdict(
        status=status,
        device=device,
        rules=Rules.PAPER,
        task_hash="t",
        submission_hash="s",
        phase=Phase.DONE if passed else Phase.CORRECTNESS,
        error=ErrorStats(rel=1e-6, max_abs=1e-5) if passed else None,
        paper_gate=passed,
        scale_gate=passed,
        timings=timings(speedup),
        speedup=speedup,
        checks=checks,
    )


def timings(of: Speedup | None) -> Timings | None:
    """Times that a speed-up may have been made of."""
    if of is None:
        return None
    stats = TimeStats(
        calls=10, median_ms=1.0, p25_ms=1.0, p75_ms=1.0, min_ms=1.0, raw_median_ms=1.0, null_ms=0.0
    )
    return Timings(
        candidate=stats,
        eager=stats if of.paper.eager is not None else None,
        compile=stats if of.paper.compile is not None else None,
        menu=(
            MenuTime(mode="tf32", kind=BaselineKind.EAGER, stats=stats),
            MenuTime(mode="tf32", kind=BaselineKind.COMPILE, stats=stats),
        ),
    )


def speedup(
    eager: float | None, compiled: float | None, matched: tuple[float | None, float | None] | None = None
) -> Speedup:
    return Speedup(
        paper=PaperSpeedup(eager=eager, compile=compiled),
        matched=MatchedSpeedup(eager=matched[0], compile=matched[1]) if matched else None,
    )


@pytest.mark.parametrize(
    ("eager", "compiled", "milestone"),
    [
        (2.0, 1.5, 3),
        (2.0, 1.0, 2),
        (1.0, 2.0, 1),
        (1.05, 1.05, 1),
        (1.0500001, 1.05, 2),
        (1.0500001, 1.0500001, 3),
        (0.5, 0.5, 1),
        (2.0, None, 2),
        (None, 2.0, 1),
        (None, None, 1),
    ],
)
def test_milestones(eager: float | None, compiled: float | None, milestone: int) -> None:
    assert reward_of(verdict(speedup=speedup(eager, compiled)), SpeedupKind.PAPER).milestone == milestone


def test_matched_wins_over_paper_where_measured() -> None:
    both = verdict(speedup=speedup(6.0, 4.0, (1.2, 1.01)))
    assert reward_of(both).milestone == 2
    assert reward_of(both, SpeedupKind.PAPER).milestone == 3
    assert reward_of(both).raw == 4.0


def test_the_reason_names_the_baselines_that_decide() -> None:
    matched = MatchedSpeedup(
        eager=1.0, compile=1.0, eager_baseline="tf32 eager", compile_baseline="tf32 compile"
    )
    both = verdict(speedup=Speedup(paper=PaperSpeedup(eager=6.0, compile=4.0), matched=matched))
    assert reward_of(both).reason == (
        "1.00× eager, 1.00× compile, against baselines of matched accuracy (tf32 eager, tf32 compile)"
    )


def test_matched_falls_back_to_paper_and_says_so() -> None:
    reward = reward_of(verdict(speedup=speedup(6.0, 4.0)))
    assert reward.milestone == 3
    assert "were not measured" in reward.reason
    assert reward_of(verdict(speedup=speedup(6.0, 4.0, (None, None)))) == reward


@pytest.mark.parametrize(
    "status", [Status.WRONG, Status.COMPILE_FAILED, Status.CRASHED, Status.TIMED_OUT, Status.CHEATED]
)
@pytest.mark.parametrize("device", list(Device))
def test_failures_cost_one(status: Status, device: Device) -> None:
    reward = reward_of(verdict(status, device=device))
    assert (reward.milestone, reward.raw) == (-1, -1.0)


@pytest.mark.parametrize("status", [Status.TASK_REFUSED, Status.UNSUPPORTED, Status.INFRASTRUCTURE])
def test_no_reward_where_the_submission_is_not_to_blame(status: Status) -> None:
    reward = reward_of(verdict(status))
    assert (reward.milestone, reward.raw) == (None, None)
    assert REWARDS["milestone"](reward) is None


def test_unstable_is_worth_one_only_beside_a_stable_baseline() -> None:
    stable = CheckOutcome(check=BASELINE_AA_CHECK, passed=True)
    shaky = CheckOutcome(check=BASELINE_AA_CHECK, passed=False)
    assert reward_of(verdict(Status.UNSTABLE, checks=(stable,))).milestone == 1
    assert reward_of(verdict(Status.UNSTABLE, checks=(shaky,))).milestone is None
    assert reward_of(verdict(Status.UNSTABLE)).milestone is None


def test_simulator_and_untimed_passes_are_worth_one() -> None:
    for passed in (verdict(device=Device.SIM), verdict()):
        reward = reward_of(passed)
        assert (reward.milestone, reward.raw) == (1, None)


def test_table_of_scalars() -> None:
    reward = reward_of(verdict(speedup=speedup(3.0, 2.0)))
    assert {name: scalar(reward) for name, scalar in REWARDS.items()} == {"milestone": 3.0, "raw": 2.0}


ratios = st.none() | st.floats(min_value=0, exclude_min=True, allow_infinity=False)


@given(ratios, ratios, st.none() | st.tuples(ratios, ratios), st.sampled_from(SpeedupKind))
def test_a_win_always_has_the_numbers_behind_it(
    eager: float | None,
    compiled: float | None,
    matched: tuple[float | None, float | None] | None,
    kind: SpeedupKind,
) -> None:
    reward = reward_of(verdict(speedup=speedup(eager, compiled, matched)), kind)
    seen_eager = [eager] + ([matched[0]] if matched else [])
    seen_compiled = [compiled] + ([matched[1]] if matched else [])
    assert reward.milestone in (1, 2, 3)
    if reward.milestone >= 2:
        assert any(r is not None and MARGIN < r < math.inf for r in seen_eager)
    if reward.milestone == 3:
        assert any(r is not None and MARGIN < r < math.inf for r in seen_compiled)


def test_every_status_has_one_row_and_its_reward_is_that_of_the_row() -> None:
    assert set(STATUS_TABLE) == set(Status)
    fast = speedup(9.0, 9.0)
    for status, row in STATUS_TABLE.items():
        timed = fast if status in (Status.PASSED, Status.UNSTABLE) else None
        milestone = reward_of(verdict(status, speedup=timed)).milestone
        assert milestone == (3 if row.reward is RewardRule.BY_SPEED else _fixed(row.reward)), status


def _fixed(rule: RewardRule) -> int | None:
    return -1 if rule is RewardRule.MINUS_ONE else None


finite = st.floats(min_value=0.01, max_value=100)


@given(finite, finite, st.floats(min_value=1, max_value=10))
def test_faster_never_earns_less(eager: float, compiled: float, factor: float) -> None:
    slow = reward_of(verdict(speedup=speedup(eager, compiled)), SpeedupKind.PAPER).milestone
    fast = reward_of(verdict(speedup=speedup(eager * factor, compiled * factor)), SpeedupKind.PAPER).milestone
    assert slow is not None and fast is not None and fast >= slow
