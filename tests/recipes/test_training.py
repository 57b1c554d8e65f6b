"""All stages in time that is lent in pieces: what is done once, and what the page says."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.agent.loop import SETTINGS, TASK
from tests.training.characters import CLOSE
from tests.training.test_budget import Model
from tests.training.test_stages import steps

from warpsmith.recipes.training import Chain, Turns
from warpsmith.training.budget import Budget
from warpsmith.training.judges import JudgeSpec, connect_judge
from warpsmith.training.player import Mode
from warpsmith.training.playing import PlayInputs, model_policy, play_stage
from warpsmith.training.recipes import recipe
from warpsmith.training.reward import RewardSettings
from warpsmith.training.scripted import SCRIPTED, write_script
from warpsmith.training.stage import Stage, StageResult
from warpsmith.types import Task
from warpsmith.types.protocols import Policy

pytest.importorskip("transformers", reason="needs the extra train")

from warpsmith.training.tiny import make_tiny_model

NAMES = ["eval_base", "collect", "rft", "eval_rft", "collect_rft", "value", "ppo", "eval_ppo"]
HELD_OUT = Task(name="held out", code=TASK.code + "# held out")


def test_a_chain_goes_on_where_it_stopped(tmp_path: Path) -> None:
    out, played = tmp_path / "out", list[tuple[str, str, str]]()
    spec = JudgeSpec(kind="scripted", settings=SETTINGS, needle="good")
    made = recipe("cpu_tiny", prompt_tokens=9000)
    chain = Chain(
        model=str(make_tiny_model(tmp_path / "base", ["x" * 9])), tasks=(TASK,), held_out=(HELD_OUT,),
        judge=spec, recipe=made, mode=Mode.SINGLE_TURN, samples=2,
    )  # fmt: skip

    def play(name: str, stage: Stage, tasks: Sequence[Task], model: str, samples: int) -> StageResult:
        says = Model("good" + CLOSE, "bad" + CLOSE)

        def policy() -> Policy:
            return model_policy(says, name, Mode.SINGLE_TURN, made)

        played.append((name, tasks[0].name, model))
        inputs = PlayInputs.of_model(model, Mode.SINGLE_TURN, samples, made, False)
        return play_stage(
            out / name, stage, tasks, inputs, lambda: connect_judge(spec), policy, RewardSettings(), note=str
        )

    for name in ("rft", "value", "ppo"):
        write_script(out / name, steps(-1.0, 0.25))

    class UntilTaught(Budget):
        def spent(self, reserve_s: float = 0.0) -> bool:
            return (out / "rft" / "result.json").exists()

    first = Turns(out, chain, UntilTaught(), play=play, engine=SCRIPTED)
    assert not first.run() and list(first.results) == NAMES[:3]
    assert [name for name, _, _ in played] == NAMES[:2]
    done = [(out / name / "result.json").read_bytes() for name in NAMES[:3]]
    last = Turns(out, chain, Budget(), play=play, engine=SCRIPTED)
    assert last.run() and list(last.results) == NAMES
    assert [(out / name / "result.json").read_bytes() for name in NAMES[:3]] == done
    taught, trained = last.results["rft"].model, last.results["ppo"].model
    assert played[2:] == [
        ("eval_base", "held out", chain.model), ("collect", TASK.name, chain.model),
        ("eval_rft", "held out", taught), ("collect_rft", TASK.name, taught), ("eval_ppo", "held out", trained),
    ]  # fmt: skip
    page = (out / "report.md").read_text().splitlines()
    assert [line.split(" | ")[0].removeprefix("| ") for line in page[2:]] == NAMES
    assert "| 2 | – | 0.250 | whole |" in page[2 + NAMES.index("ppo")]
    assert "| 50.0% (50.0% – 50.0%) | – | whole |" in page[2]
