"""`warpsmith train STAGE`: trajectories, fine-tuning, the critic, reinforcement learning, evaluation."""

import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warpsmith.cli.errors import OTHER_VERDICT, PASSED, guarded
from warpsmith.cli.options import DebugOption, DeviceOption, JsonOption, RulesOption
from warpsmith.cli.train_inputs import (
    EarlierOption,
    FromOption,
    JudgeOption,
    ModelOption,
    OutOption,
    OwnOption,
    OwnShareOption,
    RecipeOption,
    RewardOption,
    SamplesOption,
    SetOption,
    SingleTurnOption,
    SpeedupOption,
    TasksOption,
    UnsafeOption,
    bench_of,
    judge_spec,
    model_folder,
    read_recipe,
    read_runs,
    read_tasks,
    reward_settings,
)
from warpsmith.errors import UsageError

if TYPE_CHECKING:
    from warpsmith.training.stage import StageResult
    from warpsmith.types.protocols import Policy

app = typer.Typer(
    help="Train a language model on the judge's proof, stage by stage. Each goes on where it was interrupted.",
    no_args_is_help=True,
)


@app.command("collect")
@guarded
def collect(
    tasks: TasksOption,
    out: OutOption,
    policy: Annotated[str, typer.Option("--policy", help="builtin, or model with --model.")] = "builtin",
    model: Annotated[str | None, typer.Option("--model", help="Folder of the model that plays.")] = None,
    samples: SamplesOption = 1,
    render: Annotated[
        bool,
        typer.Option(
            "--render/--no-render", help="Also play a model-less policy's work again as an agent's."
        ),
    ] = True,
    single_turn: SingleTurnOption = False,
    recipe: RecipeOption = "one_gpu",
    changes: SetOption = None,
    device: DeviceOption = "auto",
    rules: RulesOption = "practical",
    judge: JudgeOption = "local",
    unsafe_local: UnsafeOption = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Collect trajectories of the built-in optimizer or of a model."""
    from warpsmith.cli import wiring

    if policy == "model":
        if model is None:
            raise UsageError("a model that plays needs --model", hint="give the folder of a model")
        return _play(
            "collect",
            tasks,
            out,
            model,
            samples,
            single_turn,
            recipe,
            changes,
            device,
            rules,
            judge,
            unsafe_local,
            as_json,
        )
    if policy not in wiring.POLICIES:
        raise UsageError(
            f"unknown policy {policy!r}", hint=f"choose one of: model, {', '.join(sorted(wiring.POLICIES))}"
        )
    from warpsmith.training.playing import PlayInputs, play_stage
    from warpsmith.training.reward import RewardSettings
    from warpsmith.training.stage import Stage

    spec = judge_spec(judge, device, rules)
    loaded = read_tasks(tasks, spec)
    inputs = PlayInputs(policy=policy, samples=samples, rendered=render, unsafe_local=unsafe_local)
    with contextlib.redirect_stdout(sys.stderr):
        result = play_stage(
            out,
            Stage.COLLECT,
            loaded,
            inputs,
            bench_of(spec),
            wiring.POLICIES[policy],
            RewardSettings(),
            note=_note,
        )
    return _told(result, out, as_json)


@app.command("eval")
@guarded
def evaluate(
    tasks: TasksOption,
    model: ModelOption,
    out: OutOption,
    samples: SamplesOption = 4,
    single_turn: SingleTurnOption = False,
    recipe: RecipeOption = "one_gpu",
    changes: SetOption = None,
    device: DeviceOption = "auto",
    rules: RulesOption = "practical",
    judge: JudgeOption = "local",
    unsafe_local: UnsafeOption = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """How often a model passes on tasks that it was not trained on, with 95 % intervals."""
    return _play(
        "eval",
        tasks,
        out,
        model,
        samples,
        single_turn,
        recipe,
        changes,
        device,
        rules,
        judge,
        unsafe_local,
        as_json,
    )


@app.command("rft")
@guarded
def rft(
    runs: FromOption,
    model: ModelOption,
    out: OutOption,
    recipe: RecipeOption = "one_gpu",
    changes: SetOption = None,
    reward: RewardOption = "milestone",
    speedup: SpeedupOption = "matched",
    max_per_task: Annotated[
        int | None, typer.Option("--max-per-task", min=1, help="Keep so many samples a task, the best ones.")
    ] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Fine-tune a model on the trajectories that earned something and do not walk in circles."""
    from warpsmith.training.samples import SampleSettings
    from warpsmith.training.stages import fine_tune

    made = read_recipe(recipe, changes)
    settings = SampleSettings(
        reward=reward_settings(reward, speedup), max_tokens=made.context_tokens, max_per_task=max_per_task
    )
    with contextlib.redirect_stdout(sys.stderr):
        result = fine_tune(out, read_runs(runs), model_folder(model), made, settings, note=_note)
    return _told(result, out, as_json)


@app.command("value")
@guarded
def value(
    runs: FromOption,
    model: ModelOption,
    out: OutOption,
    recipe: RecipeOption = "one_gpu",
    changes: SetOption = None,
    reward: RewardOption = "milestone",
    speedup: SpeedupOption = "matched",
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Pretrain the critic on all trajectories of the policy that ppo will start from, failures with them."""
    from warpsmith.training.stages import pretrain_critic

    made = read_recipe(recipe, changes)
    with contextlib.redirect_stdout(sys.stderr):
        result = pretrain_critic(
            out, read_runs(runs), model_folder(model), made, reward_settings(reward, speedup), note=_note
        )
    return _told(result, out, as_json)


@app.command("warmup")
@guarded
def warmup(
    tasks: TasksOption,
    model: ModelOption,
    out: OutOption,
    critic: Annotated[
        str | None, typer.Option("--critic", help="A pretrained critic; else the model itself.")
    ] = None,
    runs: EarlierOption = None,
    own_tasks: OwnOption = None,
    own_share: OwnShareOption = 0.0,
    recipe: RecipeOption = "one_gpu",
    changes: SetOption = None,
    reward: RewardOption = "milestone",
    speedup: SpeedupOption = "matched",
    device: DeviceOption = "auto",
    rules: RulesOption = "practical",
    judge: JudgeOption = "local",
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """PPO on single answers, before anything else."""
    given = (tasks, own_tasks, own_share, runs, recipe, changes, reward, speedup, device, rules, judge)
    return _reinforce("warmup", "single_turn", model, critic, out, given, False, as_json)


@app.command("ppo")
@guarded
def ppo(
    tasks: TasksOption,
    model: ModelOption,
    out: OutOption,
    critic: Annotated[
        str | None, typer.Option("--critic", help="The critic that `train value` made.")
    ] = None,
    runs: EarlierOption = None,
    own_tasks: OwnOption = None,
    own_share: OwnShareOption = 0.0,
    single_turn: SingleTurnOption = False,
    recipe: RecipeOption = "one_gpu",
    changes: SetOption = None,
    reward: RewardOption = "milestone",
    speedup: SpeedupOption = "matched",
    device: DeviceOption = "auto",
    rules: RulesOption = "practical",
    judge: JudgeOption = "local",
    unsafe_local: UnsafeOption = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """PPO on whole episodes of the agent."""
    given = (tasks, own_tasks, own_share, runs, recipe, changes, reward, speedup, device, rules, judge)
    mode = "single_turn" if single_turn else "agent"
    return _reinforce("ppo", mode, model, critic, out, given, unsafe_local, as_json)


def _reinforce(
    stage: str,
    mode: str,
    model: str,
    critic: str | None,
    out: Path,
    given: tuple[Any, ...],
    unsafe_local: bool,
    as_json: bool,
) -> int:
    from warpsmith.training.curriculum import CurriculumSettings
    from warpsmith.training.player import Mode
    from warpsmith.training.stage import Stage
    from warpsmith.training.stages import PpoInputs, reinforce

    tasks, own_tasks, own_share, runs, name, changes, reward, speedup, device, rules, judge = given
    spec = judge_spec(judge, device, rules)
    inputs = PpoInputs(
        actor=model_folder(model),
        critic=model_folder(critic or model),
        mode=Mode(mode),
        judge=spec,
        reward=reward_settings(reward, speedup),
        curriculum=CurriculumSettings(own_share=own_share),
        unsafe_local=unsafe_local,
    )
    made = read_recipe(name, changes)
    chosen, own = read_tasks(tasks, spec), read_tasks(own_tasks or [], spec)
    with contextlib.redirect_stdout(sys.stderr):
        result = reinforce(out, Stage(stage), chosen, own, read_runs(runs or []), inputs, made)
    return _told(result, out, as_json)


def _play(
    stage: str,
    specs: list[str],
    out: Path,
    model: str,
    samples: int,
    single_turn: bool,
    name: str,
    changes: list[str] | None,
    device: str,
    rules: str,
    judge: str,
    unsafe_local: bool,
    as_json: bool,
) -> int:
    """A model's own episodes."""
    from warpsmith.training.launch import require_train_extra
    from warpsmith.training.local_model import LocalModel
    from warpsmith.training.player import Mode
    from warpsmith.training.playing import PlayInputs, model_name, model_policy, play_stage
    from warpsmith.training.reward import RewardSettings
    from warpsmith.training.stage import Stage

    made, folder = read_recipe(name, changes), model_folder(model)
    spec = judge_spec(judge, device, rules)
    tasks = read_tasks(specs, spec)
    require_train_extra()
    mode: Mode = Mode.SINGLE_TURN if single_turn else Mode.AGENT
    inputs = PlayInputs(policy=f"{mode.value}:{folder}", samples=samples, unsafe_local=unsafe_local)
    loaded: list[LocalModel] = []

    def policy() -> "Policy":
        if not loaded:
            loaded.append(LocalModel(folder, made.device, made.dtype))
        return model_policy(loaded[0], model_name(folder), mode, made, unsafe_local=unsafe_local)

    with contextlib.redirect_stdout(sys.stderr):
        result = play_stage(
            out, Stage(stage), tasks, inputs, bench_of(spec), policy, RewardSettings(), note=_note
        )
    return _told(result, out, as_json)


def _note(text: str) -> None:
    print(text, file=sys.stderr)


def _told(result: "StageResult", out: Path, as_json: bool) -> int:
    """Prints what came of a stage; a run that was stopped early did not end well."""
    if as_json:
        print(json.dumps(result.model_dump(mode="json") | {"out": str(out)}))
    else:
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
