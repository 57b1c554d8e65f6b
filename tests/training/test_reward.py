"""Every status, through the episode that ended with it."""

import pytest
from tests.rollout.test_episode import timed
from tests.training.episodes import episode

from warpsmith.errors import UsageError
from warpsmith.reward import BASELINE_AA_CHECK, SpeedupKind
from warpsmith.rollout.scripted import scripted_verdict
from warpsmith.training.reward import Counted, RewardSettings, episode_reward
from warpsmith.types import Device, PaperSpeedup, Speedup, Status, StopReason, Submission, Task, Verdict
from warpsmith.types.protocols import JudgeSettings
from warpsmith.types.verdict import CheckOutcome

TASK = Task(name="t", code="x")
GIVEN = Submission(files={"model_new.py": ""})
CUDA = JudgeSettings(device=Device.CUDA)


def verdict(status: Status, **fields: object) -> Verdict:
    return scripted_verdict(TASK, GIVEN, CUDA, status, **fields)


def reward(found: Verdict | None, settings: RewardSettings | None = None, **fields: object) -> float | None:
    ended = episode(answer_submission_hash="s", answer_verdict_hash="v", **fields)
    return episode_reward(ended, lambda _: found, settings or RewardSettings())


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (Status.PASSED, 1.0),
        *((s, -1.0) for s in (Status.WRONG, Status.COMPILE_FAILED, Status.CRASHED)),
        *((s, -1.0) for s in (Status.TIMED_OUT, Status.CHEATED)),
        *((s, None) for s in (Status.TASK_REFUSED, Status.UNSUPPORTED, Status.INFRASTRUCTURE)),
        (Status.UNSTABLE, None),
    ],
)
def test_by_status(status: Status, expected: float | None) -> None:
    assert reward(verdict(status)) == expected


def test_unstable_beside_a_stable_baseline() -> None:
    stable = (CheckOutcome(check=BASELINE_AA_CHECK, passed=True),)
    assert reward(verdict(Status.UNSTABLE, checks=stable)) == 1.0


def test_schemes() -> None:
    speedup = Speedup(paper=PaperSpeedup(eager=2.0, compile=1.02))
    fast = verdict(Status.PASSED, **(timed(1.0) | {"speedup": speedup}))
    paper = RewardSettings(speedup=SpeedupKind.PAPER)
    assert reward(fast, paper) == 2.0
    assert reward(fast, RewardSettings(scheme="raw")) == 1.02
    assert reward(verdict(Status.WRONG), RewardSettings(scheme="raw")) == -1.0
    # correct but not timed: a raw reward is not made up
    assert reward(verdict(Status.PASSED), RewardSettings(scheme="raw")) is None


def test_the_final_workspace_counts_and_not_the_best() -> None:
    found = {"good": verdict(Status.PASSED), "bad": verdict(Status.WRONG)}
    ended = episode(
        answer_submission_hash="b",
        answer_verdict_hash="bad",
        best_submission_hash="g",
        final_verdict_hash="good",
    )
    assert episode_reward(ended, found.get, RewardSettings()) == -1.0
    assert episode_reward(ended, found.get, RewardSettings(counted=Counted.BEST)) == 1.0


def test_nothing_handed_in_is_not_correct() -> None:
    assert episode_reward(episode(), lambda _: None, RewardSettings()) == -1.0
    assert episode_reward(episode(stop=StopReason.TURN_LIMIT), lambda _: None, RewardSettings()) == -1.0


@pytest.mark.parametrize("stop", [StopReason.TASK_REFUSED, StopReason.MODEL_UNAVAILABLE])
def test_what_the_policy_cannot_help_is_left_out(stop: StopReason) -> None:
    assert episode_reward(episode(stop=stop), lambda _: None, RewardSettings()) is None


def test_a_verdict_that_is_lost_is_left_out() -> None:
    assert reward(None) is None


def test_an_unknown_scheme() -> None:
    with pytest.raises(UsageError, match="unknown reward 'speed'"):
        RewardSettings(scheme="speed")
