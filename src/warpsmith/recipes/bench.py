"""A policy over a task set, from the tasks to a run folder that a report reads."""

import platform
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from warpsmith import __version__
from warpsmith.errors import TaskError, UsageError
from warpsmith.evaluation.bench import (
    BenchListener,
    Budget,
    Ending,
    Estimate,
    Outcome,
    Question,
    Spent,
    answered,
    estimate,
    questions,
    run_bench,
    set_hash,
)
from warpsmith.evaluation.pinning import pins
from warpsmith.evaluation.protocols import Plan
from warpsmith.recipes.ahead import compile_ahead
from warpsmith.recipes.fit import fit
from warpsmith.recipes.fleet import Fleet, LocalFleet, Station, default_jobs, gpu_count
from warpsmith.reward import SpeedupKind
from warpsmith.rollout import Limits, run_episode
from warpsmith.store import Manifest, RunStore
from warpsmith.types import Device, Episode, Record, Task, TaskRef, Verdict
from warpsmith.types.protocols import Environment, JudgeSettings, Policy, PolicyStep

MakePolicy = Callable[[Station | None], Policy]
MakeFleet = Callable[[Device, int, Callable[[str], None]], Fleet]
ASSUMED_S = {Device.SIM: 60.0, Device.CUDA: 120.0}
"""An episode of the built-in policy, until the run's own episodes tell; of a language model nothing is assumed."""


GROWING = ("samples",)
"""Of which a run may be given more later; fewer is another run."""


class Asked(Record):
    """What a run over a set is asked: all of it but GROWING must agree for a run to go on."""

    label: str
    """The set, as a person named it."""
    settings: JudgeSettings
    limits: Limits = Limits()
    speedup: SpeedupKind = SpeedupKind.MATCHED
    samples: int = 1
    seed: int = 0
    shrink: bool = False
    """On the simulator: scale tasks down to what it can run."""
    plan: Plan | None = None
    """The protocol that the run follows, if it follows one."""

    @property
    def key(self) -> str:
        """The same for every question that a run may go on with."""
        return self.model_copy(update={"samples": 1}).content_hash

    @classmethod
    def of(cls, plan: Plan, device: Device, label: str, **more: Any) -> "Asked":
        """What a plan asks for on `device`."""
        values = {
            "settings": plan.protocol.judge_settings(device), "limits": plan.limits,
            "speedup": plan.protocol.speedup, "plan": plan, "shrink": device is Device.SIM, **more,
        }  # fmt: skip
        return cls.model_validate({"label": label, **values})


class Listener(BenchListener, Protocol):
    """Is told what happens."""

    def begins(self, store: RunStore, left: Estimate, total: int) -> None:
        """It is known what is left of `total` episodes; what this raises ends the run before anything is begun."""
        ...

    def note(self, line: str) -> None:
        """Anything else that a person should know."""
        ...


class Quiet:
    """A listener that says nothing."""

    def begins(self, store: RunStore, left: Estimate, total: int) -> None:
        """Nothing."""

    def finished(self, question: Question, episode: Episode) -> None:
        """Nothing."""

    def lost(self, question: Question, why: str) -> None:
        """Nothing."""

    def note(self, line: str) -> None:
        """Nothing."""


def bench(
    asked: Asked,
    tasks: Sequence[Task],
    make: MakePolicy,
    out: Path,
    *,
    jobs: int = 0,
    budget: Budget | None = None,
    listener: Listener | None = None,
    make_fleet: MakeFleet = LocalFleet,
    priced: bool = False,
    compiled_at_once: int = 0,
) -> Outcome:
    """Lets a policy work on every sample of every task, and stores all of it in `out`; a killed run goes on.

    `make` makes a policy for each episode, from what its thread judges with (None: for the name alone). `jobs`:
    episodes at a time, 0 for as many as suit the device. `priced`: episodes cost money. `compiled_at_once`: tasks
    whose baselines are compiled side by side on each GPU before the first episode; 0: each in its judgement.

    Raises UsageError where `out` holds another run, RunLockedError where another process writes to it,
    InfrastructureError where nothing here can judge.
    """
    if not tasks:
        raise UsageError("there is no task", hint="give a set that holds at least one")
    _require_different(tasks)
    told = listener or Quiet()
    device = asked.settings.device
    jobs = jobs or default_jobs(device)
    name = make(None).name
    all_of_them = questions(tasks, asked.samples, asked.seed)
    with RunStore(out) as store:
        store.open(_manifest(asked, tasks, name), growing=GROWING)
        done = answered(store)
        left = sum(question.key not in done for question in all_of_them)
        assumed = None if priced else ASSUMED_S[device]
        spent = Spent.of(store)
        expected = estimate(
            left, spent, jobs=jobs, assumed_s=assumed, priced=priced, most_usd=asked.limits.cost_usd
        )
        told.begins(store, expected, len(all_of_them))
        if not left:
            return Outcome(ending=Ending.DONE, finished=0)
        for task in tasks:
            store.put_blob(task.canonical_json())
        with make_fleet(device, jobs, told.note) as fleet:
            if compiled_at_once:
                waiting = {q.task.task_hash: q.task for q in all_of_them if q.key not in done}
                compile_ahead(
                    list(waiting.values())[: budget.episodes if budget else None], asked.settings, fleet,
                    at_once=compiled_at_once, gpus=max(1, gpu_count()), told=told.note,
                )  # fmt: skip
            return run_bench(
                store, all_of_them, lambda: _Solver(asked, store, fleet, make, name).solve,
                jobs=jobs, budget=budget or Budget(), told=told, stop=fleet.stop,
            )  # fmt: skip


@dataclass
class _Solver:
    """Answers questions, one after another, in one thread."""

    asked: Asked
    store: RunStore
    fleet: Fleet
    make: MakePolicy
    name: str
    _station: Station | None = field(default=None, init=False)

    def solve(self, question: Question) -> Episode:
        """The episode, finished and stored."""
        self._station = self._station or self.fleet.station()
        task, policy = question.task, self.make(self._station)
        if self.asked.shrink:
            try:
                task = fit(task, self._station.pool)
            except TaskError as error:
                # the task's fault is data, as in any episode
                policy = _Refused(self.name, error)
        return run_episode(
            task, policy, judge=self._station.judge, compiler=self._station.compiler,
            target=self._station.target, settings=self.asked.settings, store=self.store,
            limits=self.asked.limits, speedup=self.asked.speedup, sample=question.sample, seed=question.seed,
        )  # fmt: skip


class _Refused:
    """Stands in for a policy on a task that cannot be worked on."""

    def __init__(self, name: str, error: TaskError):
        self.name, self._error = name, error

    def solve(self, env: Environment) -> Generator[PolicyStep, Verdict | None, None]:
        """Raises what was wrong with the task."""
        raise self._error
        yield


def _require_different(tasks: Sequence[Task]) -> None:
    seen: set[tuple[str, str]] = set()
    for task in tasks:
        if (task.task_hash, task.name) in seen:
            raise UsageError(f"{task.name} is in the set twice", hint="name each task once")
        seen.add((task.task_hash, task.name))


def _manifest(asked: Asked, tasks: Sequence[Task], policy: str) -> Manifest:
    planned = asked.plan.manifest_fields() if asked.plan else {"settings": {}}
    settings = planned["settings"] | {
        **asked.settings.model_dump(mode="json", exclude={"device"}),
        **{f"limit.{k}": v for k, v in asked.limits.model_dump(mode="json").items()},
        "speedup": asked.speedup.value,
        "samples": asked.samples,
        "seed": asked.seed,
        "shrink": asked.shrink,
        "revision": ", ".join(sorted({task.revision for task in tasks if task.revision})) or None,
    }
    return Manifest(
        command="bench",
        task_hash=set_hash(tasks),
        task_name=asked.label,
        policy=policy,
        device=asked.settings.device,
        tasks=tuple(TaskRef.of(task) for task in tasks),
        versions={"warpsmith": __version__, "python": platform.python_version()},
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        pins=pins(asked.settings.device),
        **planned | {"settings": settings},
    )
