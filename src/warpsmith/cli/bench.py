"""`warpsmith bench`: a policy over a task set, into a run folder that a report reads."""

import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warpsmith.cli.agent_options import (
    AgentOptions,
    EndpointOption,
    MaxTokensOption,
    MinutesOption,
    ModelOption,
    PriceOption,
    TextToolsOption,
    UnsafeOption,
    agent_limits,
    parse_price,
)
from warpsmith.cli.errors import INFRASTRUCTURE, PASSED, guarded
from warpsmith.cli.options import DebugOption, DeviceOption, JsonOption, choose, slug
from warpsmith.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from warpsmith.evaluation.bench import Budget, Outcome
    from warpsmith.evaluation.causes import Cost
    from warpsmith.evaluation.tally import Tally
    from warpsmith.recipes.bench import Asked
    from warpsmith.rollout import Limits
    from warpsmith.types import Device, Task
    from warpsmith.types.protocols import GpuPool, Policy

RUNS_FOLDER = "runs"
_CUSTOM = "none"


@guarded
def bench(
    tasks: Annotated[
        list[str], typer.Option("--tasks", metavar="SPEC", help="A set, folder or file of tasks; repeatable.")
    ],
    policy: Annotated[str, typer.Option("--policy", help="Who writes the kernels.")] = "builtin",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="RUN", help="Run folder; runs/bench-HASH by default.")
    ] = None,
    device: DeviceOption = "auto",
    protocol: Annotated[
        str, typer.Option("--protocol", metavar="paper|matched|none", help="How runs are judged and counted.")
    ] = "matched",
    variant: Annotated[
        str, typer.Option("--variant", metavar="NAME", help="An ablation of the protocol, such as no-skill.")
    ] = "",
    rules: Annotated[
        str | None, typer.Option("--rules", metavar="practical|paper", help="With --protocol none.")
    ] = None,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Attempts at each task.")] = 1,
    seed: Annotated[int, typer.Option("--seed", help="What every sample's seed is derived from.")] = 0,
    jobs: Annotated[
        int, typer.Option("--jobs", min=0, help="Episodes at a time; 0: what suits the device.")
    ] = 0,
    max_episodes: Annotated[
        int | None, typer.Option("--max-episodes", min=0, help="Of the run in all.")
    ] = None,
    max_hours: Annotated[float | None, typer.Option("--max-hours", min=0, help="Of this start.")] = None,
    max_gpu_hours: Annotated[
        float | None, typer.Option("--max-gpu-hours", min=0, help="Of judgements on GPUs, of the run in all.")
    ] = None,
    max_cost: Annotated[
        float | None,
        typer.Option("--max-cost", min=0, metavar="USD", help="Of the run in all; needs --price."),
    ] = None,
    full_size: Annotated[
        bool, typer.Option("--full-size", help="Never scale sizes down for the simulator.")
    ] = False,
    model_name: ModelOption = None,
    endpoint: EndpointOption = None,
    price: PriceOption = None,
    text_tools: TextToolsOption = False,
    turns: Annotated[
        int | None, typer.Option("--turns", min=1, help="Of an episode; the protocol's.")
    ] = None,
    minutes: MinutesOption = 24 * 60.0,
    max_tokens: MaxTokensOption = None,
    unsafe_local: UnsafeOption = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Start without asking.")] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Let a policy work on a task set: exit status 0 if every episode ended, 3 if some were lost."""
    from warpsmith import tasks as sources
    from warpsmith.cli import wiring

    wiring.check_policy(policy)
    found = [task for spec in tasks for task in sources.load_all(spec)]
    chosen = wiring.device(device)
    wiring.require_judge_extra()
    limits = agent_limits(turns or 200, minutes, max_tokens, None)
    agent = AgentOptions(model_name, endpoint, parse_price(price), text_tools, unsafe_local)
    priced = policy == wiring.AGENT and price is not None
    if max_cost is not None and not priced:
        raise UsageError("--max-cost needs the price of a model", hint="give --price, as 3,15")
    asked = _asked(chosen, " ".join(tasks), protocol, variant, rules, limits, turns=turns).model_copy(
        update={"samples": samples, "seed": seed, "shrink": chosen.value == "sim" and not full_size}
    )
    budget = _budget(max_episodes, max_hours, max_gpu_hours, max_cost)

    def make(pool: "GpuPool | None") -> "Policy":
        return wiring.policy(policy, lambda: agent.policy(skill=_with_skill(asked)), pool)

    folder = out or Path(RUNS_FOLDER) / f"bench-{slug(policy)}-{asked.content_hash[:8]}"
    return _run(
        asked, found, make, folder, jobs=jobs, budget=budget, priced=priced, yes=yes, as_json=as_json
    )  # fmt: skip


def _budget(
    episodes: int | None, hours: float | None, gpu_hours: float | None, cost_usd: float | None
) -> "Budget":
    from warpsmith.evaluation.bench import Budget

    seconds, gpu_seconds = (None if h is None else h * 3600 for h in (hours, gpu_hours))
    return Budget(episodes=episodes, seconds=seconds, gpu_seconds=gpu_seconds, cost_usd=cost_usd)


def _asked(
    device: "Device",
    label: str,
    protocol: str,
    variant: str,
    rules: str | None,
    limits: "Limits",
    *,
    turns: int | None,
) -> "Asked":
    """The question, by a protocol or by the options alone."""
    from warpsmith.evaluation.protocols import plan
    from warpsmith.recipes.bench import Asked
    from warpsmith.types import Rules
    from warpsmith.types.protocols import JudgeSettings

    if protocol != _CUSTOM:
        if rules is not None:
            raise UsageError("--rules are the protocol's", hint=f"give --protocol {_CUSTOM} for other rules")
        followed = plan(protocol, variant)
        ends = limits.model_copy(update={"turns": turns or followed.limits.turns})
        return Asked.of(followed, device, label, limits=ends)
    if variant:
        raise UsageError("--variant is an ablation of a protocol", hint="give --protocol paper or matched")
    chosen = choose(Rules, rules or Rules.PRACTICAL.value, "rules")
    return Asked(label=label, settings=JudgeSettings(device=device, rules=chosen), limits=limits)


def _with_skill(asked: "Asked") -> bool:
    return asked.plan is None or asked.plan.variant is None or asked.plan.variant.skill


def _run(
    asked: "Asked", found: "list[Task]", make: Any, folder: Path, *,
    jobs: int, budget: "Budget", priced: bool, yes: bool, as_json: bool,
) -> int:  # fmt: skip
    """Runs, tells, and says how it ended."""
    from warpsmith.cli import wiring
    from warpsmith.cli.bench_progress import board
    from warpsmith.evaluation.bench import Ending
    from warpsmith.recipes.bench import bench as run

    # stdout carries the answer alone, whatever a library prints
    with (
        contextlib.redirect_stdout(sys.stderr),
        board(asked.speedup, yes=yes, capped=budget.cost_usd is not None) as told,
    ):
        told.note(
            f"{len(found)} tasks, {asked.samples} sample(s) each, on {asked.settings.device}; writing to {folder}"
        )
        outcome = run(
            asked, found, make, folder, jobs=jobs, budget=budget, listener=told, priced=priced,
            make_fleet=wiring.FLEETS["local"],
        )  # fmt: skip
    answer, costs = _answer(asked, found, outcome, told.tally, folder), _costs(asked, folder)
    if as_json:
        print(json.dumps(answer | {"causes": [cost.model_dump(mode="json") for cost in costs]}))
    else:
        print("\n".join(_lines(answer, costs)))
    return INFRASTRUCTURE if outcome.lost or outcome.ending is Ending.BROKEN else PASSED


def _answer(
    asked: "Asked", found: "list[Task]", outcome: "Outcome", tally: "Tally", folder: Path
) -> dict[str, Any]:
    """The object that `--json` prints."""
    from warpsmith.types import SCHEMA_VERSION

    total = len(found) * asked.samples
    return {
        "schema_version": SCHEMA_VERSION,
        "out": str(folder),
        "device": asked.settings.device.value,
        "protocol": asked.plan.protocol.name if asked.plan else None,
        "variant": asked.plan.variant.name if asked.plan and asked.plan.variant else None,
        "tasks": len(found),
        "samples": asked.samples,
        "ending": outcome.ending.value,
        "open": total - tally.episodes,
        "lost": [{"task": task, "sample": sample, "why": why} for task, sample, why in outcome.lost],
        **tally.summary(),
    }


def _costs(asked: "Asked", folder: Path) -> "tuple[Cost, ...]":
    """What costs most, the dearest first."""
    from warpsmith.evaluation.causes import costs_by_cause
    from warpsmith.evaluation.rows import rows_of
    from warpsmith.store import RunReader

    return costs_by_cause(rows_of(RunReader(folder)), asked.speedup)


def _lines(answer: dict[str, Any], costs: "Sequence[Cost]") -> list[str]:
    from warpsmith.report.causes import cause_lines

    counts = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in answer["outcomes"].items())
    lines = [f"{answer['episodes']} of {answer['tasks'] * answer['samples']} episodes: {counts or 'none'}"]
    for side in ("eager", "compile"):
        if (geomean := answer["geomean"][side]) is not None:
            lines.append(
                f"over {side:<8} faster {answer['faster'][side]}, geomean {geomean:.2f}× of what passed"
            )
    lines += [f"costs      {line}" for line in cause_lines(costs)]
    for lost in answer["lost"]:
        lines.append(f"lost       {lost['task']}, sample {lost['sample']}: {lost['why']}")
    if answer["open"]:
        lines.append(f"{answer['open']} open ({answer['ending']}): the same command goes on")
    return [*lines, f"report     warpsmith report {answer['out']}"]
