"""`warpsmith bench`: a policy over a task set, into a run folder that a report reads."""

import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsmith.cli.agent_options import (
    AgentOptions,
    CompactOption,
    ContextOption,
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
from warpsmith.cli.bench_options import (
    CompileAheadOption,
    EpisodeTurnsOption,
    FullSizeOption,
    JobsOption,
    MaxEpisodesOption,
    MaxGpuHoursOption,
    MaxHoursOption,
    OutOption,
    OwnRulesOption,
    PolicyOption,
    PoolOption,
    ProtocolOption,
    RunCostOption,
    RunSeedOption,
    SamplesOption,
    TasksOption,
    VariantOption,
    WorkersOption,
    YesOption,
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
    from warpsmith.recipes.fleet import Station
    from warpsmith.rollout import Limits
    from warpsmith.types import Device, Task
    from warpsmith.types.protocols import Policy

RUNS_FOLDER = "runs"
_CUSTOM = "none"


@guarded
def bench(
    tasks: TasksOption,
    policy: PolicyOption = "builtin",
    out: OutOption = None,
    device: DeviceOption = "auto",
    protocol: ProtocolOption = "matched",
    variant: VariantOption = "",
    rules: OwnRulesOption = None,
    samples: SamplesOption = 1,
    seed: RunSeedOption = 0,
    jobs: JobsOption = 0,
    pool: PoolOption = "local",
    workers: WorkersOption = 0,
    compile_ahead: CompileAheadOption = 0,
    max_episodes: MaxEpisodesOption = None,
    max_hours: MaxHoursOption = None,
    max_gpu_hours: MaxGpuHoursOption = None,
    max_cost: RunCostOption = None,
    full_size: FullSizeOption = False,
    model_name: ModelOption = None,
    endpoint: EndpointOption = None,
    price: PriceOption = None,
    text_tools: TextToolsOption = False,
    compact: CompactOption = False,
    context: ContextOption = None,
    turns: EpisodeTurnsOption = None,
    minutes: MinutesOption = 24 * 60.0,
    max_tokens: MaxTokensOption = None,
    unsafe_local: UnsafeOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Let a policy work on a task set: exit status 0 if every episode ended, 3 if some were lost."""
    from warpsmith import tasks as sources
    from warpsmith.cli import wiring

    wiring.check_policy(policy)
    make_fleet = wiring.fleet_maker(pool, workers)
    found = [task for spec in tasks for task in sources.load_all(spec)]
    chosen = wiring.device(device)
    wiring.require_judge_extra()
    if variant and policy != wiring.AGENT:
        raise UsageError("--variant leaves something out of the agent", hint="give --policy agent")
    if workers and chosen.value != "sim":
        raise UsageError(
            "--workers are the simulator's", hint="a GPU has one worker; --jobs says how many episodes"
        )
    limits = agent_limits(turns or 200, minutes, max_tokens, None)
    agent = AgentOptions(model_name, endpoint, parse_price(price), text_tools, unsafe_local, compact, context)
    priced = policy == wiring.AGENT and price is not None
    if max_cost is not None and not priced:
        raise UsageError("--max-cost needs the price of a model", hint="give --price, as 3,15")
    asked = _asked(chosen, " ".join(tasks), protocol, variant, rules, limits, turns=turns).model_copy(
        update={"samples": samples, "seed": seed, "shrink": chosen.value == "sim" and not full_size}
    )
    budget = _budget(max_episodes, max_hours, max_gpu_hours, max_cost)

    def make(station: "Station | None") -> "Policy":
        return wiring.policy(policy, lambda: agent.at(station, asked.plan), station)

    folder = out or Path(RUNS_FOLDER) / f"bench-{slug(policy)}-{asked.key[:8]}"
    return _run(
        asked, found, make, folder, make_fleet, jobs=jobs, budget=budget, priced=priced, yes=yes,
        as_json=as_json, compile_ahead=compile_ahead,
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


def _run(
    asked: "Asked", found: "list[Task]", make: Any, folder: Path, make_fleet: Any, *,
    jobs: int, budget: "Budget", priced: bool, yes: bool, as_json: bool, compile_ahead: int,
) -> int:  # fmt: skip
    """Runs, tells, and says how it ended."""
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
            make_fleet=make_fleet, compiled_at_once=compile_ahead,
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
