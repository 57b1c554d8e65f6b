"""The stages that play: collecting trajectories, and evaluating a model. Neither trains anything."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from pydantic import Field, JsonValue

from warpsmith import __version__
from warpsmith.agent.policy import AgentPolicy
from warpsmith.agent.settings import AgentSettings
from warpsmith.agent.single_turn import SingleTurnPolicy
from warpsmith.rollout import Limits
from warpsmith.rollout.episode import EVALUATION_TURNS
from warpsmith.sandbox import LocalSandbox, best_available
from warpsmith.store import Manifest, RunReader, RunStore
from warpsmith.store.files import write_atomic
from warpsmith.training.budget import NO_BUDGET, Budget, BudgetSpentError
from warpsmith.training.collect import REPLAYED, Workbench, collect, render
from warpsmith.training.evaluate import rate, rewards_by_task
from warpsmith.training.local_model import PlayedModel, open_model
from warpsmith.training.player import Mode
from warpsmith.training.recipes import Recipe
from warpsmith.training.reports import stage_report
from warpsmith.training.reward import RewardSettings
from warpsmith.training.stage import Stage, StageFolder, StageManifest, StageResult
from warpsmith.training.token_llm import TokenLLM
from warpsmith.types import Episode, Record, Task, sha256_hex
from warpsmith.types.protocols import Policy

RUN = "run"
REPORT = "report.md"


class PlayInputs(Record):
    """What is played: `policy` names it in the manifest; `rendered`: work without a conversation is given one."""

    policy: str
    samples: int
    rendered: bool = False
    unsafe_local: bool = False
    turns: int = EVALUATION_TURNS
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    """Of the model that plays: another one's episodes are not these."""

    @classmethod
    def of_model(cls, folder: str, mode: Mode, samples: int, made: Recipe, unsafe_local: bool) -> Self:
        """A model that plays by a recipe."""
        told = {"context_tokens", "answer_tokens", "temperature", "compact"}
        return cls(
            policy=f"{mode.value}:{folder}",
            samples=samples,
            unsafe_local=unsafe_local,
            turns=made.turns,
            settings=made.model_dump(mode="json", include=told) | {"context_tokens": made.context_tokens},
        )


def model_name(folder: str) -> str:
    """What a model's folder is called in episodes: `rft-global_step_8` for what a stage has made."""
    unsaid = {"checkpoints", "huggingface", "actor"}
    return "-".join([part for part in Path(folder).parts[1:] if part not in unsaid][-2:]) or "model"


def model_policy(
    model: PlayedModel,
    name: str,
    mode: Mode,
    made: Recipe,
    *,
    unsafe_local: bool = False,
    budget: Budget = NO_BUDGET,
) -> Policy:
    """A policy that keeps the ids it draws, so that its episodes can be trained on."""
    generate = budget.guard(model.generate)
    llm = TokenLLM(name, model.encoder, generate, made.context_tokens, temperature=made.temperature)
    settings = AgentSettings(
        context_tokens=max(1024, made.context_tokens),
        max_output_tokens=made.answer_tokens,
        keep_tokens=True,
        text_tools=True,
        trim=False,
        compact=made.compact,
    )
    if mode is Mode.SINGLE_TURN:
        return SingleTurnPolicy(llm, settings)
    return AgentPolicy(llm, LocalSandbox() if unsafe_local else best_available(), settings)


def play_stage(
    out: Path,
    stage: Stage,
    tasks: Sequence[Task],
    inputs: PlayInputs,
    bench: Callable[[], Workbench],
    policy: Callable[[], Policy],
    reward: RewardSettings,
    *,
    at_once: int = 1,
    budget: Budget = NO_BUDGET,
    note: Callable[[str], None] = print,
) -> StageResult:
    """Plays every task `inputs.samples` times into the folder's run, and says how often it passed.

    `policy` makes one for each episode; with `at_once` above 1 they play in as many threads.
    """
    with StageFolder(out) as folder:
        asked = StageManifest(
            stage=stage,
            settings={
                "inputs": inputs.model_dump(mode="json"),
                "tasks": sorted(task.task_hash[:12] for task in tasks),
                "reward": reward.model_dump(mode="json"),
            },
            versions={"warpsmith": __version__},
        )
        if (done := folder.open(asked)) is not None:
            return done
        begun, paused = time.monotonic(), False
        made = bench()
        episodes = _episodes(folder.path / RUN, tasks, inputs, made, policy, note, at_once, budget)
        try:
            for number, episode in enumerate(episodes, 1):
                earned = episode.reward.milestone if episode.reward else None
                note(
                    f"{number}: {episode.task_name} by {episode.policy}: {episode.stop.value}, reward {earned}"
                )
        except BudgetSpentError:
            paused = True
        finally:
            made.close()
        rewards = rewards_by_task([RunReader(folder.path / RUN)], reward)
        figures = {"episodes": float(sum(map(len, rewards.values()))), "tasks": float(len(rewards))}
        for label, above in (("passed", 0.0), ("faster_than_eager", 1.0), ("faster_than_both", 2.0)):
            found = rate(rewards, above)
            figures |= {label: found.mean, f"{label}/low": found.low, f"{label}/high": found.high}
        seconds = round(time.monotonic() - begun, 1)
        result = StageResult(stage=stage, figures=figures, paused=paused, seconds=seconds)
        write_atomic(folder.path / REPORT, stage_report(folder, result, []))
        return result if paused else folder.finish(result)


def play_model(
    out: Path,
    stage: Stage,
    tasks: Sequence[Task],
    folder: str,
    mode: Mode,
    samples: int,
    made: Recipe,
    bench: Callable[[], Workbench],
    *,
    unsafe_local: bool = False,
    budget: Budget = NO_BUDGET,
    note: Callable[[str], None] = print,
) -> StageResult:
    """`play_stage` of a model's own episodes, by a recipe. The model is loaded once an episode needs it."""
    inputs = PlayInputs.of_model(folder, mode, samples, made, unsafe_local)
    loaded: list[PlayedModel] = []
    one = threading.Lock()

    def policy() -> Policy:
        with one:
            if not loaded:
                loaded.append(open_model(folder, made))
        name = model_name(folder)
        return model_policy(loaded[0], name, mode, made, unsafe_local=unsafe_local, budget=budget)

    try:
        return play_stage(
            out, stage, tasks, inputs, bench, policy, RewardSettings(),
            at_once=made.at_once, budget=budget, note=note,
        )  # fmt: skip
    finally:
        for model in loaded:
            model.close()


def _episodes(
    run: Path,
    tasks: Sequence[Task],
    inputs: PlayInputs,
    bench: Workbench,
    policy: Callable[[], Policy],
    note: Callable[[str], None],
    at_once: int,
    budget: Budget,
) -> Iterator[Episode]:
    bench = replace(bench, limits=Limits(turns=inputs.turns))
    with RunStore(run) as store:
        store.open(
            Manifest(
                command="collect",
                task_hash=sha256_hex(" ".join(sorted(task.task_hash for task in tasks))),
                task_name=f"{len(tasks)} tasks",
                policy=inputs.policy,
                device=bench.settings.device,
                settings={"judge": bench.settings.content_hash},
            )
        )
        for episode in collect(
            tasks,
            policy,
            inputs.samples,
            bench,
            store,
            at_once=at_once,
            budget=budget,
            failed=lambda task, error: note(f"{task.name} is left for the next run: {error}"),
        ):
            yield episode
            if inputs.rendered and REPLAYED not in episode.policy:
                sandbox = LocalSandbox() if inputs.unsafe_local else best_available()
                if (shown := render(episode, bench, store, sandbox)) is not None:
                    yield shown
