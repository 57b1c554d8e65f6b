"""Episodes for a trainer: what is usable, what is left out, what goes on after an interruption."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.agent.loop import SETTINGS, TASK
from tests.training.characters import CLOSE, CharacterTokenizer
from tests.training.test_token_llm import VERIFY, WRITE, Says

from warpsmith.errors import InfrastructureError, UsageError
from warpsmith.rollout.scripted import scripted_verdict
from warpsmith.training.chat import ChatEncoder
from warpsmith.training.judges import JudgeSpec
from warpsmith.training.player import EpisodePlan, Mode, PatientJudge, Player
from warpsmith.training.token_llm import Generated
from warpsmith.types import StopReason, Submission, Task, Verdict
from warpsmith.types.protocols import Judge, JudgeSettings

ENCODER = ChatEncoder(CharacterTokenizer())
SPEC = JudgeSpec(kind="scripted", settings=SETTINGS, needle="good")


def plan(folder: Path, **fields: object) -> EpisodePlan:
    return EpisodePlan.model_validate(
        {"folder": str(folder), "mode": Mode.SINGLE_TURN, "judge": SPEC, "wait_s": 1.0} | fields
    )


def player(made: EpisodePlan, judge: Judge | None = None, slept: list[float] | None = None) -> Player:
    found = Player(made, ENCODER, sleep=(slept if slept is not None else []).append)
    if judge is not None:
        found._judge = judge
    return found


def test_one_answer_is_one_trajectory_with_its_reward(tmp_path: Path) -> None:
    right = player(plan(tmp_path)).play(TASK, "a", Says("good" + CLOSE))
    wrong = player(plan(tmp_path)).play(TASK, "b", Says("bad" + CLOSE))
    assert (right.reward, wrong.reward, right.usable, right.fault) == (1.0, -1.0, True, "")
    assert right.trajectory is not None
    assert right.trajectory.response == tuple(map(ord, "good" + CLOSE)) and all(right.trajectory.mask)
    assert right.trajectory.logprobs == (-0.5,) * 5


def test_a_finished_episode_is_taken_as_it_is(tmp_path: Path) -> None:
    first = player(plan(tmp_path)).play(TASK, "a", Says("good" + CLOSE))
    silent = Says("never asked")
    again = player(plan(tmp_path)).play(TASK, "a", silent)
    assert (again, silent.asked) == (first, [])
    other = player(plan(tmp_path)).play(TASK, "b", silent)
    assert other.reward == -1.0


def test_the_agent_works_over_turns_and_its_tools_text_is_masked(tmp_path: Path) -> None:
    engine = Says(WRITE + CLOSE, VERIFY + CLOSE, f"done{CLOSE}")
    played = player(plan(tmp_path, mode=Mode.AGENT)).play(TASK, "a", engine)
    assert played.reward == 1.0 and played.trajectory is not None
    assert 0 < played.trajectory.masked_share < 1 and played.trajectory.replies == 3


def test_a_long_trajectory_is_cut(tmp_path: Path) -> None:
    played = player(plan(tmp_path, response_tokens=3)).play(TASK, "a", Says("good" + CLOSE))
    assert played.trajectory is not None
    assert (played.trajectory.truncated, played.trajectory.response) == (True, tuple(map(ord, "goo")))


def test_a_full_context_is_nobodys_success(tmp_path: Path) -> None:
    played = player(plan(tmp_path, context_tokens=64)).play(TASK, "a", Says("good"))
    assert played.episode is not None and played.episode.stop is StopReason.CONTEXT_LIMIT
    assert (played.usable, played.reward) == (False, -1.0)


def test_a_context_that_fills_within_an_episode_is_rewarded_for_what_lies_there(tmp_path: Path) -> None:
    shout = '<tool_call>{"name": "Bash", "arguments": {"command": "seq 4000"}}</tool_call>'
    engine = Says(WRITE + CLOSE, VERIFY + CLOSE, shout + CLOSE)
    played = player(plan(tmp_path, mode=Mode.AGENT, context_tokens=60_000)).play(TASK, "a", engine)
    assert played.episode is not None and played.episode.stop is StopReason.CONTEXT_LIMIT
    assert (played.usable, played.reward) == (True, 1.0)
    assert played.trajectory is not None and played.trajectory.mask[-1]


class Lost:
    """A judge that is gone for so many questions."""

    def __init__(self, times: int):
        self.left = times

    def judge(self, task: Task, submission: Submission, settings: JudgeSettings) -> Verdict:
        self.left -= 1
        if self.left >= 0:
            raise InfrastructureError("the pool has gone")
        return scripted_verdict(task, submission, settings)


def test_a_pool_that_comes_back_costs_a_wait_and_no_generation(tmp_path: Path) -> None:
    engine, slept = Says("good" + CLOSE), []
    played = player(plan(tmp_path), Lost(2), slept).play(TASK, "a", engine)
    assert (played.reward, slept, len(engine.asked)) == (1.0, [1.0, 2.0], 1)


def test_a_pool_that_stays_away_leaves_the_episode_out(tmp_path: Path) -> None:
    played = player(plan(tmp_path), Lost(99)).play(TASK, "a", Says("good" + CLOSE))
    assert (played.usable, played.reward, played.fault) == (False, None, "the pool has gone")
    # once it is back, the same episode is finished
    assert player(plan(tmp_path)).play(TASK, "a", Says("unused")).reward == 1.0


class Endless:
    def __init__(self) -> None:
        self.ends = threading.Event()

    def judge(self, task: Task, submission: Submission, settings: JudgeSettings) -> Verdict:
        self.ends.wait(60)
        raise AssertionError


def test_a_verdict_that_never_comes_is_not_waited_for(tmp_path: Path) -> None:
    endless = Endless()
    begun = time.monotonic()
    played = player(plan(tmp_path, judge_seconds=0.05, attempts=2), endless).play(TASK, "a", Says("x"))
    endless.ends.set()
    assert played.fault == "the judge gave no verdict within 0.05 s" and time.monotonic() - begun < 30


def test_what_a_judge_raises_is_passed_on() -> None:
    class Confused:
        def judge(self, task: Task, submission: Submission, settings: JudgeSettings) -> Verdict:
            raise UsageError("no such device")

    with pytest.raises(UsageError, match="no such device"):
        PatientJudge(Confused(), 9.0).judge(TASK, Submission(files={"model_new.py": ""}), SETTINGS)


def test_a_killed_episode_goes_on_from_its_tokens(tmp_path: Path) -> None:
    class Killed(Says):
        def __call__(self, prompt: Sequence[int], most: int, temperature: float) -> Generated:
            if len(self.asked) == 2:
                raise KeyboardInterrupt
            return super().__call__(prompt, most, temperature)

    agent = plan(tmp_path, mode=Mode.AGENT)
    with pytest.raises(KeyboardInterrupt):
        player(agent).play(TASK, "a", Killed(WRITE + CLOSE, VERIFY + CLOSE))
    played = player(agent).play(TASK, "a", Says(f"done{CLOSE}"))
    assert played.reward == 1.0
    assert played.trajectory is not None and played.trajectory.replies == 3


def test_an_unknown_judge() -> None:
    with pytest.raises(UsageError, match="unknown judge 'oracle'"):
        Player(plan(Path("x"), judge=SPEC.model_copy(update={"kind": "oracle"})), ENCODER)
