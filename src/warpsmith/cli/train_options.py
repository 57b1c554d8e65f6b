"""Options of `warpsmith train`: one record a command, which a command line fills in."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from warpsmith.cli.options import DebugOption, DeviceOption, JsonOption, RulesOption
from warpsmith.cli.train_inputs import judge_spec, read_recipe, read_runs, reward_settings

if TYPE_CHECKING:
    from warpsmith.store import RunReader
    from warpsmith.training.budget import Budget
    from warpsmith.training.judges import JudgeSpec
    from warpsmith.training.recipes import Recipe
    from warpsmith.training.reward import RewardSettings

Options = TypeVar("Options")
_LAST = ("as_json", "debug")
"""Options that stand last in the help."""
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
    str,
    typer.Option(
        "--recipe", metavar="NAME", help="Figures: paper, paper_warmup, one_gpu, lent_gpu, cpu_tiny."
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIGURE=VALUE", help="Another value of a recipe's figure, as JSON."),
]
BudgetOption = Annotated[
    float | None,
    typer.Option("--budget", metavar="SECONDS", min=0, help="Pause after so long; the same command goes on."),
]
JudgeOption = Annotated[
    str,
    typer.Option(
        "--judge", metavar="local|scripted:WORD", help="Who judges; scripted passes sources with WORD."
    ),
]
MeasureOption = Annotated[
    bool,
    typer.Option(
        "--measure/--no-measure", help="Time kernels; without it a right one earns 1, however fast."
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
CriticOption = Annotated[
    str | None, typer.Option("--critic", help="The critic that `train value` made; else the model itself.")
]
PolicyOption = Annotated[str, typer.Option("--policy", help="builtin, or model with --model.")]
PlayerOption = Annotated[str | None, typer.Option("--model", help="Folder of the model that plays.")]
RenderOption = Annotated[
    bool,
    typer.Option("--render/--no-render", help="Also play a model-less policy's work again as an agent's."),
]
MostOption = Annotated[
    int | None, typer.Option("--max-per-task", min=1, help="Keep so many samples a task, the best ones.")
]


def asking(record: type[Options]) -> Callable[[Callable[[Options], int]], Callable[..., int]]:
    """Makes a command of a function that takes `record`: its fields are the command's options."""
    found = sorted(fields(record), key=lambda field: (field.default is not MISSING, field.name in _LAST))  # type: ignore[arg-type]
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=field.type,
        )
        for field in found
    ]

    def command_of(run: Callable[[Options], int]) -> Callable[..., int]:
        def command(**given: object) -> int:
            return run(record(**given))

        command.__name__, command.__doc__ = run.__name__, run.__doc__
        command.__annotations__ = {field.name: field.type for field in found}
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return command

    return command_of


@dataclass(frozen=True, kw_only=True)
class StageOptions:
    """Of every stage."""

    out: OutOption
    recipe: RecipeOption = "one_gpu"
    changes: SetOption = None
    budget: BudgetOption = None
    as_json: JsonOption = False
    debug: DebugOption = False

    def read_recipe(self) -> "Recipe":
        """The recipe with its changes. Raises UsageError."""
        return read_recipe(self.recipe, self.changes)

    def read_budget(self) -> "Budget":
        """How long it may run from now on."""
        from warpsmith.training.budget import Budget

        return Budget.of(self.budget)


@dataclass(frozen=True, kw_only=True)
class JudgedOptions(StageOptions):
    """Of stages in which tasks are worked on and judged."""

    tasks: TasksOption
    device: DeviceOption = "auto"
    rules: RulesOption = "practical"
    judge: JudgeOption = "local"
    measure: MeasureOption = True

    def judge_spec(self) -> "JudgeSpec":
        """The judge. Raises UsageError, MissingExtraError, InfrastructureError."""
        return judge_spec(self.judge, self.device, self.rules, measure=self.measure)


@dataclass(frozen=True, kw_only=True)
class PlayOptions(JudgedOptions):
    """Of stages that play and train nothing."""

    samples: SamplesOption = 1
    single_turn: SingleTurnOption = False
    unsafe_local: UnsafeOption = False


@dataclass(frozen=True, kw_only=True)
class CollectOptions(PlayOptions):
    """Of `collect`."""

    policy: PolicyOption = "builtin"
    model: PlayerOption = None
    render: RenderOption = True


@dataclass(frozen=True, kw_only=True)
class EvalOptions(PlayOptions):
    """Of `eval`."""

    model: ModelOption
    samples: SamplesOption = 4


@dataclass(frozen=True, kw_only=True)
class LearnOptions(StageOptions):
    """Of stages that learn from what was played: `value`."""

    runs: FromOption
    model: ModelOption
    reward: RewardOption = "milestone"
    speedup: SpeedupOption = "matched"

    def read_runs(self) -> "list[RunReader]":
        """What was played. Raises UsageError."""
        return read_runs(self.runs)

    def reward_settings(self) -> "RewardSettings":
        """What a verdict is worth. Raises UsageError."""
        return reward_settings(self.reward, self.speedup)


@dataclass(frozen=True, kw_only=True)
class FineTuneOptions(LearnOptions):
    """Of `rft`."""

    max_per_task: MostOption = None


@dataclass(frozen=True, kw_only=True)
class ReinforceOptions(JudgedOptions):
    """Of reinforcement learning: `warmup`."""

    model: ModelOption
    critic: CriticOption = None
    runs: EarlierOption = None
    own_tasks: OwnOption = None
    own_share: OwnShareOption = 0.0
    reward: RewardOption = "milestone"
    speedup: SpeedupOption = "matched"


@dataclass(frozen=True, kw_only=True)
class PpoOptions(ReinforceOptions):
    """Of `ppo`."""

    single_turn: SingleTurnOption = False
    unsafe_local: UnsafeOption = False
