"""Stages that stop in time: nothing is begun that would not end, and nothing that was done is done again."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.agent.loop import SETTINGS, TASK
from tests.training.characters import CLOSE, CharacterTokenizer
from tests.training.test_stages import ppo, rewards, steps, weights
from tests.training.test_token_llm import Says

from warpsmith.training.budget import Budget, BudgetSpentError
from warpsmith.training.chat import ChatEncoder
from warpsmith.training.judges import JudgeSpec, connect_judge
from warpsmith.training.player import Mode
from warpsmith.training.playing import PlayInputs, model_policy, play_stage
from warpsmith.training.recipes import recipe
from warpsmith.training.reward import RewardSettings
from warpsmith.training.scripted import write_script
from warpsmith.training.stage import Stage, StageResult
from warpsmith.training.token_llm import Generated
from warpsmith.types.protocols import Policy

SPENT = Budget(ends_at=1.0)
SPEC = JudgeSpec(kind="scripted", settings=SETTINGS, needle="good")


def test_what_fits() -> None:
    # a day is left: no machine is so slow that it matters when this is asked
    day = 86_400.0
    budget = Budget.of(day)
    assert not budget.spent() and budget.spent(day) and not budget.spent(day / 2)
    # a fifth more than the longest
    assert budget.fits([day / 2, 1.0]) and not budget.fits([1.0, day * 0.9]) and budget.fits([])
    assert Budget().fits([1e9]) and not SPENT.fits([])


def test_a_trainer_pauses_behind_a_step_and_goes_on(tmp_path: Path) -> None:
    write_script(tmp_path, steps(-1.0, 0.5))
    paused = ppo(tmp_path, budget=SPENT)
    assert (paused.paused, paused.steps, weights(paused)) == (True, 1, "weights of step 1")
    assert "Paused after 1 steps" in (tmp_path / "report.md").read_text()
    last = ppo(tmp_path)
    assert (last.paused, last.steps) == (False, 2) and rewards(tmp_path) == [(1, -1.0), (2, 0.5)]
    assert ppo(tmp_path, budget=SPENT) == last


class Model:
    """Plays on a script; `ends` holds once its budget is to be spent."""

    encoder = ChatEncoder(CharacterTokenizer())

    def __init__(self, *texts: str):
        self.says = Says(*texts)

    def generate(self, prompt: Sequence[int], most: int, temperature: float) -> Generated:
        return self.says(prompt, most, temperature)

    def close(self) -> None:
        pass


def play(out: Path, model: Model, budget: Budget, at_once: int = 1, samples: int = 2) -> StageResult:
    made = recipe("cpu_tiny", prompt_tokens=9000, turns=4)
    inputs = PlayInputs.of_model("m", Mode.SINGLE_TURN, samples, made, False)

    def policy() -> Policy:
        return model_policy(model, "m", Mode.SINGLE_TURN, made, budget=budget)

    return play_stage(
        out, Stage.EVAL, [TASK], inputs, lambda: connect_judge(SPEC), policy, RewardSettings(),
        at_once=at_once, budget=budget, note=str,
    )  # fmt: skip


def test_what_plays_pauses_and_goes_on(tmp_path: Path) -> None:
    class Slow(Model):
        """Its first reply takes the rest of the time."""

        def generate(self, prompt: Sequence[int], most: int, temperature: float) -> Generated:
            drawn = super().generate(prompt, most, temperature)
            clock.append(2.0)
            return drawn

    clock = [0.0]

    class Ticking(Budget):
        def spent(self, reserve_s: float = 0.0) -> bool:
            return clock[-1] >= 1.0

    first = Slow("good" + CLOSE)
    paused = play(tmp_path, first, Ticking(ends_at=1.0))
    assert (paused.paused, paused.figures["episodes"], len(first.says.asked)) == (True, 1.0, 1)
    rest = Model("bad" + CLOSE)
    ended = play(tmp_path, rest, Budget())
    assert (ended.paused, ended.figures["episodes"], ended.figures["passed"]) == (False, 2.0, 0.5)
    assert len(rest.says.asked) == 1


def test_a_reply_is_not_begun_when_the_time_is_up() -> None:
    with pytest.raises(BudgetSpentError):
        SPENT.guard(Says("x"))([1], 1, 1.0)
    assert Budget().guard(Says("x"))([1], 1, 1.0).ids == (ord("x"),)


def test_many_play_at_once_and_none_twice(tmp_path: Path) -> None:
    model = Model("good" + CLOSE)
    found = play(tmp_path, model, Budget(), at_once=4, samples=9)
    assert (found.figures["episodes"], found.figures["passed"], len(model.says.asked)) == (9.0, 1.0, 9)
