"""`warpsmith optimize`: a PyTorch model in, a verified module with CUDA kernels out."""

import contextlib
import json
import platform
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warpsmith import __version__
from warpsmith.cli.agent_options import (
    AgentOptions,
    CompactOption,
    ContextOption,
    EndpointOption,
    MaxCostOption,
    MaxTokensOption,
    MinutesOption,
    ModelOption,
    PriceOption,
    SeedOption,
    TextToolsOption,
    TurnsOption,
    UnsafeOption,
    agent_limits,
    parse_price,
)
from warpsmith.cli.errors import INFRASTRUCTURE, OTHER_VERDICT, PASSED, guarded
from warpsmith.cli.options import (
    BaselinesOption,
    DebugOption,
    DeviceOption,
    JsonOption,
    RulesOption,
    VaryOption,
    choose,
    slug,
)
from warpsmith.errors import TaskRefusedError

if TYPE_CHECKING:
    from warpsmith.cli.progress import Reporter
    from warpsmith.report import EpisodeRecords
    from warpsmith.rollout import Limits
    from warpsmith.store import Manifest
    from warpsmith.types import Device, Task
    from warpsmith.types.protocols import JudgeSettings, Policy

RUNS_FOLDER = "runs"


@guarded
def optimize(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Task file, or SOURCE:PATH#LEVEL/PROBLEM.")],
    policy: Annotated[str, typer.Option("--policy", help="Who writes the kernels.")] = "builtin",
    device: DeviceOption = "auto",
    out: Annotated[
        Path | None, typer.Option("--out", help="Result folder; runs/NAME-HASH by default.")
    ] = None,
    rules: RulesOption = "practical",
    baselines: BaselinesOption = "matched",
    full_size: Annotated[
        bool, typer.Option("--full-size", help="Never scale sizes down for the simulator.")
    ] = False,
    vary: VaryOption = None,
    model_name: ModelOption = None,
    endpoint: EndpointOption = None,
    price: PriceOption = None,
    text_tools: TextToolsOption = False,
    compact: CompactOption = False,
    context: ContextOption = None,
    turns: TurnsOption = 200,
    minutes: MinutesOption = 24 * 60.0,
    max_tokens: MaxTokensOption = None,
    max_cost: MaxCostOption = None,
    seed: SeedOption = None,
    unsafe_local: UnsafeOption = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Optimize a model: exit status 0 also where nothing faster was found, which is then said."""
    from warpsmith import tasks
    from warpsmith.cli import wiring
    from warpsmith.types import SCHEMA_VERSION, Device, Rules
    from warpsmith.types.protocols import JudgeSettings, Menu

    chosen_rules = choose(Rules, rules, "rules")
    menu = choose(Menu, baselines, "baselines")
    wiring.check_policy(policy)
    priced = parse_price(price)
    limits = agent_limits(turns, minutes, max_tokens, max_cost, priced)
    asked = AgentOptions(model_name, endpoint, priced, text_tools, unsafe_local, compact, context)

    def make() -> "Policy":
        return asked.policy(chosen_device) if policy == wiring.AGENT else wiring.POLICIES[policy]()

    original = tasks.load(model)
    chosen_device = wiring.device(device)
    wiring.require_judge_extra()
    settings = JudgeSettings(device=chosen_device, rules=chosen_rules, baselines=menu)
    statuses, answers = [], []
    for variant in tasks.variants(original, vary or ()):
        place = out / slug(variant.label) if out and vary else out
        shrink = chosen_device is Device.SIM and not full_size
        done = _optimized(variant.task, make(), settings, place, limits, seed, shrink=shrink)
        if vary and not as_json:
            print(f"{variant.label}:")
        answers.append(_told(done, as_json=as_json, variant=variant.label if vary else None))
        statuses.append(_exit_status(done.records))
    if as_json:
        print(json.dumps({"schema_version": SCHEMA_VERSION, "variants": answers} if vary else answers[0]))
    return max(statuses)


@dataclass(frozen=True)
class _Done:
    """A finished run; `fresh` False: it had finished before."""

    records: "EpisodeRecords"
    folder: Path
    fresh: bool


def _optimized(
    original: "Task",
    policy: "Policy",
    settings: "JudgeSettings",
    out: Path | None,
    limits: "Limits",
    seed: int | None,
    *,
    shrink: bool,
) -> _Done:
    """One task's run in its folder. Raises TaskRefusedError where nothing was submitted to an unfit task."""
    from warpsmith.cli.progress import reporter
    from warpsmith.types import StopReason

    unfit: tuple[str, ...] = ()
    # stdout carries the answer alone, whatever a library prints
    with contextlib.redirect_stdout(sys.stderr), reporter(settings.device) as progress:
        task = _fit_simulator(original, progress) if shrink else original
        manifest = _manifest(task, policy, settings, seed)
        folder = out or Path(RUNS_FOLDER) / f"{slug(task.name)}-{_run_key(manifest)[:8]}"
        records, fresh = _run(folder, manifest, original, task, policy, settings, limits, seed, progress)
        if records.episode.stop is StopReason.FINISHED and not _submitted(records):
            unfit = _unfit(task, settings.device, progress)
    if unfit:
        raise TaskRefusedError(f"the task is unfit to be judged: {unfit[0]}", hint="see warpsmith check")
    return _Done(records, folder, fresh)


def _unfit(task: "Task", device: "Device", progress: "Reporter") -> tuple[str, ...]:
    """What makes a task unfit that no judgement has looked at, since the policy submitted nothing."""
    from warpsmith.cli import wiring
    from warpsmith.judge.admission.check import TaskChecker
    from warpsmith.types import CheckSettings

    progress.phase("check", "the policy submitted nothing: looking at the task itself")
    (found,) = TaskChecker(wiring.pool()).check([task], CheckSettings(device=device, compile=False))
    return found.problems


def _fit_simulator(original: "Task", progress: "Reporter") -> "Task":
    """The task itself where the simulator can run it, else one derived from it with smaller sizes."""
    from warpsmith.sim.shrink import shrink

    progress.phase("sizes", "fitting the task to the simulator")
    task = shrink(original)
    if task.derived_from:
        progress.note("the task is too large for the simulator: its sizes were scaled down (a derived task)")
    return task


def _manifest(task: "Task", policy: "Policy", settings: "JudgeSettings", seed: int | None) -> "Manifest":
    from warpsmith.evaluation.pinning import pins
    from warpsmith.rollout import told_of
    from warpsmith.store import Manifest

    named = settings.model_dump(mode="json", exclude={"device"})
    told = {f"policy.{name}": value for name, value in told_of(policy).items()}
    if seed is not None:
        told["seed"] = seed
    return Manifest(
        command="optimize",
        task_hash=task.task_hash,
        task_name=task.name,
        policy=policy.name,
        device=settings.device,
        settings=named | {"derived_from": task.derived_from} | told,
        versions={"warpsmith": __version__, "python": platform.python_version()},
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        pins=pins(settings.device),
    )


def _run_key(manifest: "Manifest") -> str:
    """The same question has the same folder."""
    return manifest.model_copy(update={"versions": {}, "started_at": "", "pins": None}).content_hash


def _run(
    folder: Path,
    manifest: "Manifest",
    original: "Task",
    task: "Task",
    policy: "Policy",
    settings: "JudgeSettings",
    limits: "Limits",
    seed: int | None,
    progress: "Reporter",
) -> tuple["EpisodeRecords", bool]:
    """Runs, or goes on with, the episode in `folder` and writes its result; False: it had finished before."""
    from warpsmith.cli import wiring
    from warpsmith.cli.live import Teller
    from warpsmith.report import write_result
    from warpsmith.report.transcript import write_transcript
    from warpsmith.rollout import RESUMABLE, run_episode
    from warpsmith.store import RunStore

    with RunStore(folder) as store:
        store.open(manifest)
        if (finished := store.episodes()) and finished[-1].stop not in RESUMABLE:
            return write_result(store, folder, finished[-1]), False
        progress.note(f"writing to {folder}")
        bench = wiring.bench(settings.device, progress.phase, ahead=True)
        progress.note(f"device {settings.device}, isolation {bench.isolation}")
        store.put_blob(original.code)
        progress.phase("policy", policy.name)
        episode = run_episode(
            task,
            policy,
            judge=bench.judge,
            compiler=bench.compiler,
            target=bench.target,
            settings=settings,
            store=store,
            limits=limits,
            seed=seed,
            progress=Teller(progress),
        )
        write_transcript(store, folder, episode)
        return write_result(store, folder, episode), True


def _improved(records: "EpisodeRecords") -> bool | None:
    """True: faster than eager by more than the margin. None: nothing was timed, so nobody knows."""
    if records.final is None:
        return False
    if records.final.speedup is None:
        return None
    reward = records.episode.reward
    return reward is not None and (reward.milestone or 0) >= 2


def _exit_status(records: "EpisodeRecords") -> int:
    from warpsmith.cli.judge import status_of
    from warpsmith.rollout import RESUMABLE
    from warpsmith.types import StopReason

    if records.final is not None:
        return status_of(records.final.status.value)
    if records.episode.stop in RESUMABLE:
        return INFRASTRUCTURE
    idle = records.episode.stop is StopReason.FINISHED and not _submitted(records)
    return PASSED if idle else OTHER_VERDICT


def _submitted(records: "EpisodeRecords") -> bool:
    """Whether the policy put anything before the judge."""
    return any(turn.submission_hash for turn in records.episode.turns)


def _told(done: _Done, *, as_json: bool, variant: str | None) -> dict[str, Any]:
    """The object that `--json` prints; without it, the result is printed for a person."""
    from warpsmith.rollout import RESUMABLE

    episode = done.records.episode
    if episode.stop in RESUMABLE:
        print(f"warpsmith: {episode.turns[-1].note}; then the same command goes on", file=sys.stderr)
    if not as_json:
        _print_result(done.records, done.folder, fresh=done.fresh)
        return {}
    answer = _json(done.records, done.folder)
    return answer if variant is None else {"variant": variant} | answer


def _print_result(records: "EpisodeRecords", folder: Path, *, fresh: bool) -> None:
    from warpsmith.report import REPORT_FILE, SOLUTION_FOLDER, outcome, verdict_lines
    from warpsmith.rollout import RESUMABLE
    from warpsmith.types import TASK_STOPS

    if not fresh:
        print(f"this run had finished before; its result in {folder}:")
    verdict, reward = records.final, records.episode.reward
    if verdict is not None and reward is not None:
        print("\n".join(verdict_lines(verdict, reward)))
    else:
        print(outcome(records))
    if _improved(records) is False and records.episode.stop not in TASK_STOPS | RESUMABLE:
        print("nothing faster than the model itself was found")
    if records.task.derived_from and verdict is not None:
        print("judged on a derived task with smaller sizes, not on the full-size one")
    if records.submission is not None:
        print(f"solution   {folder / SOLUTION_FOLDER}")
    print(f"report     {folder / REPORT_FILE}")


def _json(records: "EpisodeRecords", folder: Path) -> dict[str, Any]:
    from warpsmith.report import SOLUTION_FOLDER, outcome, summary
    from warpsmith.reward import reward_of
    from warpsmith.rollout import RESUMABLE
    from warpsmith.types import SCHEMA_VERSION, Status, StopReason

    if (verdict := records.last) is not None:
        answer = summary(verdict, records.episode.reward or reward_of(verdict))
    else:
        answer = dict.fromkeys(("status", "reward", "speedup", "error"))
        answer |= {"schema_version": SCHEMA_VERSION, "device": records.episode.device.value}
        ends = {
            StopReason.TASK_REFUSED: Status.TASK_REFUSED,
            StopReason.TASK_UNSUPPORTED: Status.UNSUPPORTED,
            **dict.fromkeys(RESUMABLE, Status.INFRASTRUCTURE),
        }
        if status := ends.get(records.episode.stop):
            answer["status"] = status.value
    if records.final is None:
        answer["detail"] = outcome(records)
    return answer | {
        "improved": _improved(records),
        "derived_task": records.task.derived_from is not None,
        "out": str(folder),
        "solution": str(folder / SOLUTION_FOLDER) if records.submission else None,
    }
