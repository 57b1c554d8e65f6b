"""Options of `warpsmith train`, and what their words mean."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsmith.cli.options import choose
from warpsmith.errors import UsageError

if TYPE_CHECKING:
    from warpsmith.store import RunReader
    from warpsmith.training.collect import Workbench
    from warpsmith.training.judges import JudgeSpec
    from warpsmith.training.recipes import Recipe
    from warpsmith.training.reward import RewardSettings
    from warpsmith.types import Task

OutOption = Annotated[
    Path, typer.Option("--out", help="The stage's folder; given again, it goes on from there.")
]
TasksOption = Annotated[
    list[str], typer.Option("--tasks", metavar="SPEC", help="Tasks, as for optimize; repeat it for more.")
]
FromOption = Annotated[
    list[Path],
    typer.Option("--from", help="Folder of a stage or run whose episodes are used; repeat it for more."),
]
EarlierOption = Annotated[
    list[Path] | None, typer.Option("--from", help="Folders of runs that tell how hard each task is.")
]
ModelOption = Annotated[str, typer.Option("--model", help="Folder of a model in Hugging Face's format.")]
RecipeOption = Annotated[
    str, typer.Option("--recipe", metavar="NAME", help="Figures: paper, paper_warmup, one_gpu, cpu_tiny.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIGURE=VALUE", help="Another value of a recipe's figure, as JSON."),
]
JudgeOption = Annotated[
    str,
    typer.Option(
        "--judge", metavar="local|scripted:WORD", help="Who judges; scripted passes sources with WORD."
    ),
]
RewardOption = Annotated[
    str, typer.Option("--reward", metavar="milestone|raw", help="What a verdict is worth to the trainer.")
]
SpeedupOption = Annotated[
    str, typer.Option("--speedup", metavar="matched|paper", help="Which baselines a reward counts.")
]
SamplesOption = Annotated[int, typer.Option("--samples", min=1, help="Episodes a task.")]
OwnOption = Annotated[
    list[str] | None,
    typer.Option("--own-tasks", metavar="SPEC", help="Your own tasks, mixed in by --own-share."),
]
OwnShareOption = Annotated[float, typer.Option("--own-share", min=0, max=1, help="Share of your own tasks.")]
UnsafeOption = Annotated[
    bool, typer.Option("--unsafe-local", help="Run a model's commands without isolation. Dangerous.")
]
SingleTurnOption = Annotated[
    bool, typer.Option("--single-turn", help="One answer instead of the agent's tools.")
]


def read_tasks(specs: list[str], spec: "JudgeSpec") -> "list[Task]":
    """The tasks; on the simulator each as small as it can run."""
    from warpsmith import tasks
    from warpsmith.types import Device

    loaded = [task for one in specs for task in tasks.load_all(one)]
    if spec.kind != "local" or spec.settings.device is not Device.SIM:
        return loaded
    from warpsmith.sim.shrink import shrink

    return [shrink(task) for task in loaded]


def judge_spec(word: str, device: str, rules: str) -> "JudgeSpec":
    """The judge that the words name. Raises UsageError, MissingExtraError, InfrastructureError."""
    from warpsmith.cli import wiring
    from warpsmith.training.judges import JudgeSpec
    from warpsmith.types import Device, Rules
    from warpsmith.types.protocols import JudgeSettings

    kind, _, needle = word.partition(":")
    chosen = choose(Rules, rules, "rules")
    if kind == "scripted":
        return JudgeSpec(kind=kind, needle=needle, settings=JudgeSettings(device=Device.SIM, rules=chosen))
    wiring.require_judge_extra()
    found = wiring.device(device)
    return JudgeSpec(kind=kind, settings=JudgeSettings(device=found, rules=chosen), arch=wiring.arch(found))


def bench_of(spec: "JudgeSpec") -> "Callable[[], Workbench]":
    """Makes the judge when it is first needed."""
    from warpsmith.training.judges import connect_judge

    return lambda: connect_judge(spec)


def read_runs(folders: list[Path]) -> "list[RunReader]":
    """Every run at or below the folders. Raises UsageError where a folder holds none."""
    from warpsmith.training.trajectories import find_runs

    found = []
    for folder in folders:
        if not (here := find_runs(folder)):
            raise UsageError(
                f"{folder} holds no run", hint="give the folder of a stage that has played episodes"
            )
        found += here
    return found


def model_folder(model: str) -> str:
    """The absolute path of a model's folder. Raises UsageError where it holds none."""
    if not (Path(model) / "config.json").is_file():
        raise UsageError(
            f"{model} holds no model", hint="give the folder of a model in Hugging Face's format"
        )
    return str(Path(model).absolute())


def read_recipe(name: str, changes: list[str] | None) -> "Recipe":
    """The recipe with the changes of `--set`. Raises UsageError."""
    from warpsmith.training.recipes import recipe

    found: dict[str, object] = {}
    for change in changes or ():
        figure, equals, text = change.partition("=")
        if not equals:
            raise UsageError(f"cannot read {change!r}", hint="give FIGURE=VALUE")
        try:
            found[figure] = json.loads(text)
        except ValueError:
            found[figure] = text
    return recipe(name, **found)


def reward_settings(scheme: str, speedup: str) -> "RewardSettings":
    """What a verdict is worth. Raises UsageError for unknown words."""
    from warpsmith.reward import SpeedupKind
    from warpsmith.training.reward import RewardSettings

    return RewardSettings(scheme=scheme, speedup=choose(SpeedupKind, speedup, "speedup"))
