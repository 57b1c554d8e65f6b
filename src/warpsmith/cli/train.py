"""`warpsmith train STAGE`: trajectories, fine-tuning, the critic, reinforcement learning, evaluation."""

import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from warpsmith.cli.errors import OTHER_VERDICT, PASSED, guarded
from warpsmith.cli.train_inputs import bench_of, model_folder, read_runs, read_tasks, reward_settings
from warpsmith.cli.train_options import (
    CollectOptions,
    EvalOptions,
    FineTuneOptions,
    LearnOptions,
    PlayOptions,
    PpoOptions,
    ReinforceOptions,
    asking,
)
from warpsmith.errors import UsageError

if TYPE_CHECKING:
    from warpsmith.training.stage import StageResult

app = typer.Typer(
    help="Train a language model on the judge's proof, stage by stage. Each goes on where it was interrupted.",
    no_args_is_help=True,
)


@app.command("collect")
@guarded
@asking(CollectOptions)
def collect(asked: CollectOptions) -> int:
    """Collect trajectories of the built-in optimizer or of a model."""
    from warpsmith.cli import wiring

    if asked.policy == "model":
        if asked.model is None:
            raise UsageError("a model that plays needs --model", hint="give the folder of a model")
        return _play("collect", asked, asked.model)
    if asked.policy not in wiring.POLICIES:
        known = ", ".join(sorted(wiring.POLICIES))
        raise UsageError(f"unknown policy {asked.policy!r}", hint=f"choose one of: model, {known}")
    from warpsmith.training.playing import PlayInputs, play_stage
    from warpsmith.training.reward import RewardSettings
    from warpsmith.training.stage import Stage

    spec = asked.judge_spec()
    tasks = read_tasks(asked.tasks, spec)
    inputs = PlayInputs(
        policy=asked.policy, samples=asked.samples, rendered=asked.render, unsafe_local=asked.unsafe_local
    )
    policy = wiring.POLICIES[asked.policy]
    with contextlib.redirect_stdout(sys.stderr):
        result = play_stage(
            asked.out, Stage.COLLECT, tasks, inputs, bench_of(spec), policy, RewardSettings(),
            budget=asked.read_budget(), note=_note,
        )  # fmt: skip
    return _told(result, asked.out, asked.as_json)


@app.command("eval")
@guarded
@asking(EvalOptions)
def evaluate(asked: EvalOptions) -> int:
    """How often a model passes on tasks that it was not trained on, with 95 % intervals."""
    return _play("eval", asked, asked.model)


@app.command("rft")
@guarded
@asking(FineTuneOptions)
def rft(asked: FineTuneOptions) -> int:
    """Fine-tune a model on the trajectories that earned something and do not walk in circles."""
    from warpsmith.training.samples import SampleSettings
    from warpsmith.training.stages import fine_tune

    made = asked.read_recipe()
    settings = SampleSettings(
        reward=asked.reward_settings(), max_tokens=made.context_tokens, max_per_task=asked.max_per_task
    )
    with contextlib.redirect_stdout(sys.stderr):
        result = fine_tune(
            asked.out, asked.read_runs(), model_folder(asked.model), made, settings,
            note=_note, budget=asked.read_budget(),
        )  # fmt: skip
    return _told(result, asked.out, asked.as_json)


@app.command("value")
@guarded
@asking(LearnOptions)
def value(asked: LearnOptions) -> int:
    """Pretrain the critic on all trajectories of the policy that ppo will start from, failures with them."""
    from warpsmith.training.stages import pretrain_critic

    made, reward = asked.read_recipe(), asked.reward_settings()
    with contextlib.redirect_stdout(sys.stderr):
        result = pretrain_critic(
            asked.out, asked.read_runs(), model_folder(asked.model), made, reward,
            note=_note, budget=asked.read_budget(),
        )  # fmt: skip
    return _told(result, asked.out, asked.as_json)


@app.command("warmup")
@guarded
@asking(ReinforceOptions)
def warmup(asked: ReinforceOptions) -> int:
    """PPO on single answers, before anything else."""
    return _reinforce("warmup", asked, single_turn=True, unsafe_local=False)


@app.command("ppo")
@guarded
@asking(PpoOptions)
def ppo(asked: PpoOptions) -> int:
    """PPO on whole episodes of the agent."""
    return _reinforce("ppo", asked, single_turn=asked.single_turn, unsafe_local=asked.unsafe_local)


def _reinforce(stage: str, asked: ReinforceOptions, *, single_turn: bool, unsafe_local: bool) -> int:
    from warpsmith.training.curriculum import CurriculumSettings
    from warpsmith.training.player import Mode
    from warpsmith.training.stage import Stage
    from warpsmith.training.stages import PpoInputs, reinforce

    spec = asked.judge_spec()
    inputs = PpoInputs(
        actor=model_folder(asked.model),
        critic=model_folder(asked.critic or asked.model),
        mode=Mode.SINGLE_TURN if single_turn else Mode.AGENT,
        judge=spec,
        reward=reward_settings(asked.reward, asked.speedup),
        curriculum=CurriculumSettings(own_share=asked.own_share),
        unsafe_local=unsafe_local,
    )
    made, earlier = asked.read_recipe(), read_runs(asked.runs or [])
    tasks, own = read_tasks(asked.tasks, spec), read_tasks(asked.own_tasks or [], spec)
    with contextlib.redirect_stdout(sys.stderr):
        result = reinforce(
            asked.out, Stage(stage), tasks, own, earlier, inputs, made, budget=asked.read_budget()
        )
    return _told(result, asked.out, asked.as_json)


def _play(stage: str, asked: PlayOptions, model: str) -> int:
    """A model's own episodes."""
    from warpsmith.training.launch import require_train_extra
    from warpsmith.training.player import Mode
    from warpsmith.training.playing import play_model
    from warpsmith.training.stage import Stage

    made, folder = asked.read_recipe(), model_folder(model)
    spec = asked.judge_spec()
    tasks = read_tasks(asked.tasks, spec)
    require_train_extra()
    mode: Mode = Mode.SINGLE_TURN if asked.single_turn else Mode.AGENT
    with contextlib.redirect_stdout(sys.stderr):
        result = play_model(
            asked.out, Stage(stage), tasks, folder, mode, asked.samples, made, bench_of(spec),
            unsafe_local=asked.unsafe_local, budget=asked.read_budget(), note=_note,
        )  # fmt: skip
    return _told(result, asked.out, asked.as_json)


def _note(text: str) -> None:
    print(text, file=sys.stderr)


def _told(result: "StageResult", out: Path, as_json: bool) -> int:
    """Prints what came of a stage; a run that was stopped early did not end well."""
    if as_json:
        print(json.dumps(result.model_dump(mode="json") | {"out": str(out)}))
    else:
        if result.paused:
            print(f"paused after {result.steps} steps: the same command goes on")
        if result.stopped is not None:
            print(f"stopped at step {result.steps}: {result.stopped.value}")
        for name in (
            "reward/mean",
            "passed",
            "passed/low",
            "passed/high",
            "actor/loss",
            "critic/explained_variance",
        ):
            if name in result.figures:
                print(f"{name:26} {result.figures[name]:.4g}")
        if result.model is not None:
            print(f"model   {result.model}")
        print(f"report  {out / 'report.md'}")
    return OTHER_VERDICT if result.stopped is not None else PASSED
