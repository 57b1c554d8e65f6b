"""Every stage of training, one behind the other, in time that is lent in pieces: called again, it goes on.

The model plays tasks as an agent of few turns, learns from what it passed, its critic from all that it played, and
both by PPO; before and behind each it is evaluated on tasks that it was not trained on. What has to be kept between
calls is the folder without `start` and `log.txt`: episodes, figures, and checkpoints of a few megabytes of adapters.
"""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from warpsmith.store.files import write_atomic
from warpsmith.training.budget import Budget
from warpsmith.training.collect import Workbench
from warpsmith.training.judges import JudgeSpec, connect_judge
from warpsmith.training.launch import VERL, Engine
from warpsmith.training.player import Mode
from warpsmith.training.playing import play_model
from warpsmith.training.recipes import Recipe
from warpsmith.training.reward import RewardSettings
from warpsmith.training.samples import SampleSettings
from warpsmith.training.stage import Stage, StageResult
from warpsmith.training.stages import PpoInputs, fine_tune, pretrain_critic, reinforce
from warpsmith.training.trajectories import find_runs
from warpsmith.types import Record, Task

REPORT, _SPENT = "report.md", "spent.jsonl"
Play = Callable[[str, Stage, Sequence[Task], str, int], StageResult]
"""(name, stage, tasks, model, samples) -> what came of it."""


class Chain(Record):
    """What is trained on what. `held_out` is never trained on; `samples` of each of its tasks are played."""

    model: str
    """Folder of the model that is trained, in Hugging Face's format."""
    tasks: tuple[Task, ...]
    held_out: tuple[Task, ...]
    judge: JudgeSpec
    recipe: Recipe
    mode: Mode = Mode.AGENT
    samples: int = 4
    played: int = 4
    """Episodes a task that are learned from."""


class _Paused(Exception):
    """The time is up, or a stage was stopped."""


class Turns:
    """A chain in its folder. `results`: what came of the stages that were reached, by name."""

    def __init__(
        self, out: Path, chain: Chain, budget: Budget, *, play: Play | None = None, engine: Engine = VERL
    ):
        self.results: dict[str, StageResult] = {}
        self._out, self._chain, self._budget, self._engine = out, chain, budget, engine
        self._play = play or self._play_model

    def run(self) -> bool:
        """Goes on until the chain ends or the time is up; whether it has ended. Raises what the stages raise."""
        try:
            self._stages()
        except _Paused:
            return False
        finally:
            write_atomic(self._out / REPORT, turns_report(self._out, self.results))
        return True

    def _stages(self) -> None:
        chain, made = self._chain, self._chain.recipe
        self._rate("eval_base", chain.model)
        self._keep("collect", lambda: self._plays("collect", chain.model))
        runs, settings = find_runs(self._out / "collect"), SampleSettings(max_tokens=made.context_tokens)
        taught = self._model_of(
            "rft",
            lambda: fine_tune(
                self._out / "rft", runs, chain.model, made, settings, engine=self._engine, budget=self._budget
            ),
        )
        self._rate("eval_rft", taught)
        self._keep("collect_rft", lambda: self._plays("collect_rft", taught))
        runs = find_runs(self._out / "collect_rft")
        critic = self._model_of(
            "value",
            lambda: pretrain_critic(
                self._out / "value",
                runs,
                taught,
                made,
                RewardSettings(),
                engine=self._engine,
                budget=self._budget,
            ),
        )
        inputs = PpoInputs(actor=taught, critic=critic, mode=chain.mode, judge=chain.judge)
        last = self._model_of(
            "ppo",
            lambda: reinforce(
                self._out / "ppo", Stage.PPO, chain.tasks, [], runs, inputs, made,
                engine=self._engine, budget=self._budget,
            ),
        )  # fmt: skip
        self._rate("eval_ppo", last)

    def _rate(self, name: str, model: str) -> None:
        chain = self._chain
        self._keep(name, lambda: self._play(name, Stage.EVAL, chain.held_out, model, chain.samples))

    def _plays(self, name: str, model: str) -> StageResult:
        return self._play(name, Stage.COLLECT, self._chain.tasks, model, self._chain.played)

    def _play_model(
        self, name: str, stage: Stage, tasks: Sequence[Task], model: str, samples: int
    ) -> StageResult:
        def bench() -> Workbench:
            return connect_judge(self._chain.judge)

        chain = self._chain
        return play_model(
            self._out / name,
            stage,
            tasks,
            model,
            chain.mode,
            samples,
            chain.recipe,
            bench,
            budget=self._budget,
        )

    def _model_of(self, name: str, run: Callable[[], StageResult]) -> str:
        result = self._keep(name, run)
        if result.model is None:
            # stopped before anything good was saved: what is behind it has nothing to start from
            raise _Paused
        return result.model

    def _keep(self, name: str, run: Callable[[], StageResult]) -> StageResult:
        """Runs a stage to its end, or takes what came of it. Raises _Paused where it has not ended."""
        if self._budget.spent():
            raise _Paused
        had_ended = (self._out / name / "result.json").exists()
        begun = time.monotonic()
        result = self.results[name] = run()
        if not had_ended:
            with (self._out / _SPENT).open("a") as file:
                seconds = round(time.monotonic() - begun, 1)
                file.write(json.dumps({"stage": name, "seconds": seconds}) + "\n")
        if result.paused:
            raise _Paused
        return result


def turns_report(out: Path, results: dict[str, StageResult]) -> str:
    """Markdown: a line a stage with all the time that was spent on it, and what it passed or learned."""
    spent: dict[str, float] = {}
    if (out / _SPENT).exists():
        for line in (out / _SPENT).read_text().splitlines():
            row = json.loads(line)
            spent[row["stage"]] = spent.get(row["stage"], 0.0) + row["seconds"]
    lines = [
        "| stage | minutes | steps | passed (95 % interval) | mean reward | how it ended |",
        "|---|---|---|---|---|---|",
    ]
    for name, result in results.items():
        figures = result.figures
        passed = "–"
        if "passed" in figures:
            passed = f"{figures['passed']:.1%} ({figures['passed/low']:.1%} – {figures['passed/high']:.1%})"
        reward = f"{figures['reward/mean']:.3f}" if "reward/mean" in figures else "–"
        ended = "paused" if result.paused else result.stopped.value if result.stopped else "whole"
        minutes = f"{spent.get(name, 0.0) / 60:.1f}"
        lines.append(f"| {name} | {minutes} | {result.steps} | {passed} | {reward} | {ended} |")
    return "\n".join(lines) + "\n"
