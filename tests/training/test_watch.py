"""A collapsing run is stopped, a healthy one never."""

import math

import pytest

from warpsmith.training.watch import Alarm, Watch, WatchSettings

HEALTHY = {
    "actor/entropy": 0.5,
    "mismatch/kl": 0.001,
    "ratio/p99": 1.1,
    "response/clip_ratio": 0.1,
    "reward/mean": 0.5,
    "reward/none": 0.0,
    "actor/loss": 0.1,
    "critic/loss": 0.1,
}


def test_a_healthy_run_goes_on() -> None:
    watch = Watch(WatchSettings())
    assert all(watch.look(n, HEALTHY).healthy for n in range(50))


@pytest.mark.parametrize(
    ("name", "value", "alarm"),
    [
        ("mismatch/kl", 0.2, Alarm.MISMATCH),
        ("ratio/p99", 6.0, Alarm.RATIO),
        ("actor/entropy", 0.01, Alarm.ENTROPY_LOW),
        ("actor/entropy", 2.5, Alarm.ENTROPY_HIGH),
        ("response/clip_ratio", 0.7, Alarm.LENGTH),
        ("reward/none", 0.6, Alarm.EXCLUDED),
    ],
)
def test_what_lasts_stops_the_run(name: str, value: float, alarm: Alarm) -> None:
    watch = Watch(WatchSettings(patience=3))
    assert watch.look(0, HEALTHY).healthy
    looks = [watch.look(n, HEALTHY | {name: value}) for n in range(1, 4)]
    assert [look.alarms for look in looks] == [(alarm,)] * 3
    assert [look.stop for look in looks] == [None, None, alarm]


def test_what_passes_does_not() -> None:
    watch = Watch(WatchSettings(patience=2))
    bad = HEALTHY | {"mismatch/kl": 1.0}
    assert [watch.look(n, row).stop for n, row in enumerate([bad, HEALTHY, bad, HEALTHY, bad])] == [None] * 5


@pytest.mark.parametrize("name", ["actor/loss", "critic/loss"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_no_number_stops_at_once(name: str, value: float) -> None:
    assert Watch(WatchSettings()).look(0, HEALTHY | {name: value}).stop is Alarm.NOT_A_NUMBER


def test_a_fallen_reward() -> None:
    watch = Watch(WatchSettings(patience=2, reward_window=2, reward_drop=0.5))
    rewards = [0.0, 1.0, 1.0, 1.0, -0.5, -0.6, -0.7]
    # means of two: -, 0.5, 1, 1, 0.25, -0.55, -0.65; the best is 1, so that below 0 is far
    looks = [watch.look(n, {"reward/mean": r}) for n, r in enumerate(rewards)]
    assert [look.alarms for look in looks] == [()] * 5 + [(Alarm.REWARD,)] * 2
    assert looks[-1].stop is Alarm.REWARD


def test_a_policy_that_never_earned_anything_has_not_fallen() -> None:
    watch = Watch(WatchSettings(reward_window=1))
    assert all(watch.look(n, {"reward/mean": -1.0}).healthy for n in range(9))


def test_limits_can_be_taken_away_and_absent_figures_are_not_judged() -> None:
    off = WatchSettings(
        mismatch_kl=None, ratio_p99=None, entropy_low=None, entropy_high=None, length_clip=None
    )
    bad = {"mismatch/kl": 9.0, "ratio/p99": 99.0, "response/clip_ratio": 1.0, "actor/entropy": 0.0}
    watch = Watch(off)
    assert all(watch.look(n, bad).healthy for n in range(5))
    assert Watch(WatchSettings()).look(0, {}).healthy
