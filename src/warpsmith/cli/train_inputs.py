"""What the words of `warpsmith train` mean."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from warpsmith.cli.options import choose
from warpsmith.errors import UsageError

if TYPE_CHECKING:
    from warpsmith.store import RunReader
    from warpsmith.training.collect import Workbench
    from warpsmith.training.judges import JudgeSpec
    from warpsmith.training.recipes import Recipe
    from warpsmith.training.reward import RewardSettings
    from warpsmith.types import Task


def read_tasks(specs: list[str], spec: "JudgeSpec") -> "list[Task]":
    """The tasks; on the simulator each as small as it can run."""
    from warpsmith import tasks
    from warpsmith.types import Device

    loaded = [task for one in specs for task in tasks.load_all(one)]
    if spec.kind != "local" or spec.settings.device is not Device.SIM:
        return loaded
    from warpsmith.sim.shrink import shrink

    return [shrink(task) for task in loaded]


def judge_spec(word: str, device: str, rules: str, *, measure: bool = True) -> "JudgeSpec":
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
    settings = JudgeSettings(device=found, rules=chosen, measure=measure)
    return JudgeSpec(kind=kind, settings=settings, arch=wiring.arch(found))


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
