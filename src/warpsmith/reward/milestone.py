"""Verdict -> Reward: -1 not correct, 1 correct, 2 faster than eager, 3 faster than eager and compile."""

from enum import StrEnum

from warpsmith.types import STATUS_TABLE, Device, Reward, RewardRule, Speedup, Verdict

MARGIN = 1.05
"""A speed-up counts from strictly above this ratio."""

BASELINE_AA_CHECK = "baseline_aa"
"""Name of the judge's check that the baseline agrees with itself; it decides what `unstable` is worth."""


class SpeedupKind(StrEnum):
    """Which baselines count: those of comparable accuracy, or PyTorch's default mode as published."""

    MATCHED = "matched"
    PAPER = "paper"


def reward_of(verdict: Verdict, speedup: SpeedupKind = SpeedupKind.MATCHED) -> Reward:
    """The reward of a verdict, by `STATUS_TABLE`. `milestone` None: no reward can be given.

    `raw` is always against default-mode compile: t_compile / t_new, -1 where the submission failed,
    None where no such time exists. A missing number never counts as a win.
    """
    match STATUS_TABLE[verdict.status].reward:
        case RewardRule.MINUS_ONE:
            return Reward(milestone=-1, raw=-1.0, reason=verdict.status.value)
        case RewardRule.NONE:
            return Reward(milestone=None, reason=f"{verdict.status.value}: no reward can be given")
        case RewardRule.ONE_BESIDE_A_STABLE_BASELINE:
            return _unstable(verdict)
        case RewardRule.BY_SPEED:
            return _by_speed(verdict, speedup)


def _by_speed(verdict: Verdict, speedup: SpeedupKind) -> Reward:
    if verdict.device is Device.SIM:
        return Reward(milestone=1, reason="correct; the simulator proves nothing about speed")
    if verdict.speedup is None:
        return Reward(milestone=1, reason="correct; not timed")
    eager, compiled, against = _ratios(verdict.speedup, speedup)
    return Reward(
        milestone=_milestone(eager, compiled),
        raw=verdict.speedup.paper.compile,
        reason=f"{_times(eager)} eager, {_times(compiled)} compile, against {against}",
    )


def _unstable(verdict: Verdict) -> Reward:
    stable_baseline = any(c.check == BASELINE_AA_CHECK and c.passed for c in verdict.checks)
    if stable_baseline:
        return Reward(milestone=1, reason="correct; its times are unstable while the baseline's are stable")
    return Reward(milestone=None, reason="unstable, and the baseline was not shown to be stable")


def _ratios(speedup: Speedup, kind: SpeedupKind) -> tuple[float | None, float | None, str]:
    matched = speedup.matched
    if kind is SpeedupKind.MATCHED and matched is not None:
        pair = (matched.eager, matched.compile)
        if pair != (None, None):
            names = ", ".join(n for n in (matched.eager_baseline, matched.compile_baseline) if n)
            return *pair, "baselines of matched accuracy" + (f" ({names})" if names else "")
    against = "default-mode baselines"
    if kind is SpeedupKind.MATCHED:
        against += " (accuracy-matched ones were not measured)"
    return speedup.paper.eager, speedup.paper.compile, against


def _milestone(eager: float | None, compiled: float | None) -> int:
    beats_eager = eager is not None and eager > MARGIN
    beats_compile = compiled is not None and compiled > MARGIN
    if beats_eager and beats_compile:
        return 3
    return 2 if beats_eager else 1


def _times(ratio: float | None) -> str:
    return "unknown ×" if ratio is None else f"{ratio:.2f}×"
