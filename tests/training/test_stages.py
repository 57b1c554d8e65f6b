"""What stages hand to the trainer, what they say of it, and what becomes of a run whose trainer fails."""

import json
import math
from pathlib import Path

import pytest
from tests.agent.loop import SETTINGS, TASK
from tests.training.test_player import plan, player
from tests.training.test_stage import checkpoint
from tests.training.test_token_llm import CLOSE, Says

from warpsmith.errors import InfrastructureError, UsageError
from warpsmith.training.budget import NO_BUDGET, Budget
from warpsmith.training.judges import JudgeSpec
from warpsmith.training.recipes import recipe
from warpsmith.training.reports import stage_report
from warpsmith.training.reward import RewardSettings
from warpsmith.training.scripted import SCRIPTED, Mishap, ScriptedStep, write_script
from warpsmith.training.stage import Curves, Stage, StageFolder, StageManifest, StageResult, seal
from warpsmith.training.stages import PpoInputs, pretrain_critic, reinforce, task_rows
from warpsmith.training.trajectories import find_runs
from warpsmith.training.watch import Alarm
from warpsmith.types import Task

INPUTS = PpoInputs(
    actor="actor", critic="critic", judge=JudgeSpec(kind="scripted", settings=SETTINGS, needle="good")
)


def test_rows_hold_the_task_and_its_place() -> None:
    tasks = [Task(name="a", code="x"), Task(name="b", code="y"), Task(name="a", code="x")]
    rows = [json.loads(line) for line in task_rows(tasks).splitlines()]
    assert [Task.model_validate_json(row["task"]) for row in rows] == tasks
    # the same task twice in a run is told apart by its row
    assert [row["extra_info"]["index"] for row in rows] == [0, 1, 2]


def test_a_report_says_what_was_asked_and_how_it_went(tmp_path: Path) -> None:
    with StageFolder(tmp_path) as folder:
        folder.open(StageManifest(stage=Stage.PPO, settings={"steps": 3}))
        seal(checkpoint(folder, 3))
        for step, reward in ((1, -1.0), (2, 0.0), (3, float("nan"))):
            Curves(tmp_path).append(step, {"reward/mean": reward})
        result = StageResult(stage=Stage.PPO, model="m", steps=3, figures={"samples": 7.0}, seconds=2.0)
        rows = Curves(tmp_path).rows()
        text = stage_report(folder, result, rows)
        assert "| reward/mean | -1 | 0 | no number |" in text and "- samples: 7" in text
        assert "- steps: `3`" in text and "Ended after 3 steps" in text
        stopped = result.model_copy(update={"stopped": Alarm.ENTROPY_LOW, "model": None})
        assert "**Stopped at step 3: entropy has collapsed; no checkpoint" in stage_report(
            folder, stopped, rows
        )


def steps(*rewards: float, mishap: Mishap | None = None, at: int = 0) -> list[ScriptedStep]:
    """One step a mean reward; `mishap` befalls the checkpoint of step `at`."""
    return [
        ScriptedStep(
            figures={"reward/mean": reward, "actor/loss": 0.1}, mishap=mishap if number == at else None
        )
        for number, reward in enumerate(rewards, 1)
    ]


def ppo(out: Path, budget: Budget = NO_BUDGET, **changes: object) -> StageResult:
    made = recipe("cpu_tiny", **changes)
    return reinforce(out, Stage.PPO, [TASK], [], [], INPUTS, made, engine=SCRIPTED, budget=budget)


def weights(result: StageResult) -> str:
    return (Path(result.model or "") / "config.json").read_text()


def rewards(out: Path) -> list[tuple[float, float]]:
    return [(row["step"], row["reward/mean"]) for row in Curves(out).rows()]


def test_a_run_to_its_end_is_not_run_again(tmp_path: Path) -> None:
    write_script(tmp_path, steps(-1.0, 0.5))
    result = ppo(tmp_path)
    assert (result.steps, result.stopped, weights(result)) == (2, None, "weights of step 2")
    assert rewards(tmp_path) == [(1, -1.0), (2, 0.5)]
    write_script(tmp_path, steps(9.0, 9.0, 9.0))
    assert ppo(tmp_path) == result
    with pytest.raises(UsageError, match="holds another run: recipe was"):
        ppo(tmp_path, steps=3)


@pytest.mark.parametrize(
    ("mishap", "reason"),
    [
        (Mishap.KILLED, "ended with status signal 9"),
        (Mishap.FULL_DISK, "ended with status 1: OSError: .* No space left on device"),
    ],
)
def test_what_was_cut_short_is_done_again_and_nothing_else(
    tmp_path: Path, mishap: Mishap, reason: str
) -> None:
    write_script(tmp_path, steps(-1.0, -0.5, 0.0, mishap=mishap, at=2))
    with pytest.raises(InfrastructureError, match=reason) as caught:
        ppo(tmp_path)
    assert "the same command goes on from the last" in (caught.value.hint or "")
    assert [path.name for path in sorted((tmp_path / "checkpoints").iterdir())] == [
        "global_step_1", "global_step_2",
    ]  # fmt: skip
    assert rewards(tmp_path) == [(1, -1.0)]
    result = ppo(tmp_path)
    assert weights(result) == "weights of step 3"
    assert rewards(tmp_path) == [(1, -1.0), (2, -0.5), (3, 0.0)]


def test_a_loss_that_is_no_number_ends_with_the_last_good_weights(tmp_path: Path) -> None:
    script = steps(0.0, 0.1, 0.2, 0.3)
    script[2] = ScriptedStep(figures={"reward/mean": 0.2, "actor/loss": math.nan})
    write_script(tmp_path, script)
    result = ppo(tmp_path)
    assert (result.stopped, result.steps, weights(result)) == (Alarm.NOT_A_NUMBER, 3, "weights of step 2")
    assert "**Stopped at step 3: a loss or gradient is no number" in (tmp_path / "report.md").read_text()
    assert ppo(tmp_path).stopped is Alarm.NOT_A_NUMBER


def test_the_critic_learns_from_what_was_played_failures_with_it(tmp_path: Path) -> None:
    played = player(plan(tmp_path / "played"))
    for name, text in (("a", "good"), ("b", "bad")):
        played.play(TASK, name, Says(text + CLOSE))
    runs, out, told = find_runs(tmp_path / "played"), tmp_path / "value", list[str]()
    made = recipe("cpu_tiny", value_epochs=3)
    with pytest.raises(UsageError, match="2 of what can be learned do not feed 3 GPUs"):
        many = made.model_copy(update={"gpus": 3})
        pretrain_critic(tmp_path / "many", runs, "m", many, RewardSettings(), note=str, engine=SCRIPTED)
    write_script(out, steps(0.0, 0.0, 0.0, mishap=Mishap.KILLED, at=1))
    with pytest.raises(InfrastructureError, match="signal 9"):
        pretrain_critic(out, runs, "model", made, RewardSettings(), note=told.append, engine=SCRIPTED)
    job = json.loads((out / "job.json").read_text())
    # two trajectories are one batch, seen three times
    assert {"data.train_batch_size=2", "trainer.total_training_steps=3"} <= set(job["overrides"])
    lines = [json.loads(line) for line in (out / "data.jsonl").read_text().splitlines()]
    assert [line["reward"] for line in lines] == [1.0, -1.0]
    result = pretrain_critic(out, runs, "model", made, RewardSettings(), note=told.append, engine=SCRIPTED)
    assert (result.steps, result.figures["trajectories"], weights(result)) == (3, 2.0, "weights of step 3")
    # what was chosen stays chosen
    assert told == ["2 trajectories; left out: {}"]


def test_nothing_to_learn_starts_no_trainer(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no trajectory has token ids and a reward"):
        pretrain_critic(
            tmp_path / "value", [], "model", recipe("cpu_tiny"), RewardSettings(), note=str, engine=SCRIPTED
        )
    assert not (tmp_path / "value" / "log.txt").exists()
