"""Turns words of the command line into a device, a policy and a judge, importing only what they need."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warpsmith.cli.options import unknown
from warpsmith.errors import InfrastructureError
from warpsmith.types import Device, Phase, Target

if TYPE_CHECKING:
    from warpsmith.agent.settings import AgentSettings
    from warpsmith.compile import LocalCompiler
    from warpsmith.gpu.devices import GpuInfo
    from warpsmith.judge.service import LocalJudge
    from warpsmith.llm import LLMSettings
    from warpsmith.recipes.bench import MakeFleet
    from warpsmith.recipes.fleet import Fleet, Station
    from warpsmith.types.protocols import Compiler, GpuPool, Judge, Policy, Sandbox

AUTO = "auto"
BUILTIN = "builtin"


def _builtin() -> "Policy":
    from warpsmith.recipes import policies

    return policies.builtin()


POLICIES: dict[str, Callable[[], "Policy"]] = {BUILTIN: _builtin}
"""One line a policy that needs no options."""
AGENT = "agent"
"""The policy that a language model plays."""


@dataclass(frozen=True)
class Bench:
    """What submissions are built and judged with."""

    judge: "Judge"
    compiler: "Compiler"
    target: Target
    isolation: str
    """Name of the sandbox in force."""


def check_policy(word: str) -> None:
    """UsageError where there is no policy of this name; cheap, unlike making one."""
    if word not in (AGENT, *POLICIES):
        raise unknown("policy", word, [AGENT, *POLICIES])


def agent(
    model: str | None,
    llm: "LLMSettings",
    settings: "AgentSettings",
    *,
    device: Device | None = None,
    unsafe_local: bool = False,
) -> "Policy":
    """The agent on a model named as BACKEND:NAME; on a `device` with the instruments that this machine has.

    Raises UsageError for a missing or unknown model or key, InfrastructureError where nothing isolates its commands.
    """
    from warpsmith.recipes import policies

    at = station(device) if device is not None else None
    return policies.agent(model, llm, settings, unsafe_local=unsafe_local, station=at)


def station(device: Device) -> "Station":
    """What an agent that works alone on this machine has."""
    from warpsmith.recipes.fleet import Station, instruments
    from warpsmith.sandbox import for_submissions

    made, here = bench(device, lambda phase, detail: None), pool()
    found = instruments(made.judge, here, made.compiler, for_submissions(), made.target)
    return Station(made.judge, made.compiler, made.target, here, *found)


def require_judge_extra() -> None:
    """MissingExtraError where PyTorch is not installed."""
    from warpsmith.judge.machine import torch_build

    torch_build()


def require_isolation(least: str) -> None:
    """InfrastructureError where no sandbox from `least` on works here, UsageError where none has that name."""
    from warpsmith.sandbox import best_available

    best_available(least)


def device(word: str) -> Device:
    """`auto` is cuda where a GPU and a PyTorch for it are here, else sim.

    Raises UsageError for an unknown word, InfrastructureError where cuda is asked for and cannot be had.
    """
    if word not in (AUTO, *Device):
        raise unknown("device", word, [AUTO, *Device])
    if word == Device.SIM:
        return Device.SIM
    from warpsmith.judge.machine import torch_build

    if not _gpus():
        missing = "no NVIDIA GPU was found"
    elif torch_build().get("cuda") is None:
        missing = "the installed PyTorch is built without CUDA"
    else:
        return Device.CUDA
    if word == AUTO:
        return Device.SIM
    raise InfrastructureError(missing, hint="see warpsmith doctor, or use --device sim for correctness alone")


def arch(device: Device) -> str:
    """What kernels are built for on `device`, such as sm_90."""
    return _gpus()[0].arch if device is Device.CUDA else ""


def _gpus() -> "tuple[GpuInfo, ...]":
    """The GPUs that CUDA_VISIBLE_DEVICES leaves visible."""
    from warpsmith.gpu.devices import list_gpus
    from warpsmith.gpu.local import visible_gpus

    return visible_gpus(list_gpus(), os.environ.get("CUDA_VISIBLE_DEVICES"))


def pool() -> "GpuPool":
    """This machine's pool."""
    from warpsmith.gpu import LocalPool
    from warpsmith.sandbox.process import Tree

    return LocalPool(Tree)


def bench(
    device: Device, progress: Callable[[Phase, str], None], *, ahead: bool = False, place: str = "local"
) -> Bench:
    """What judges on `device`, by way of the pool of this name. Raises InfrastructureError.

    Also where nothing isolates as well as the environment's LEAST_ISOLATION asks for. `ahead`: there will be several
    judgements, so the next one's processes start while something else is done.
    """
    return POOLS[place](device, progress, ahead)


def _local(device: Device, progress: Callable[[Phase, str], None], ahead: bool) -> Bench:
    from warpsmith.compile import LocalCompiler
    from warpsmith.judge.service import LocalJudge
    from warpsmith.sandbox import for_submissions

    built_for = arch(device)
    compiler, sandbox = LocalCompiler(), for_submissions()
    if ahead:
        judge = _lasting_judge(compiler, sandbox, built_for, progress)
        judge.prepare(device)
    else:
        judge = LocalJudge(pool(), compiler, sandbox, arch=built_for, progress=progress)
    return Bench(judge, compiler, Target(device=device, arch=built_for), sandbox.name)


def _lasting_judge(
    compiler: "LocalCompiler", sandbox: "Sandbox", arch: str, progress: Callable[[Phase, str], None]
) -> "LocalJudge":
    """One for several judgements: what they need is loaded once, and gone with the judge or this process."""
    import weakref

    from warpsmith.gpu.pool import WorkerPool
    from warpsmith.gpu.warm import WarmWorker
    from warpsmith.judge.runner.forkserver import ForkServer
    from warpsmith.judge.service import LocalJudge
    from warpsmith.recipes.fleet import WARM
    from warpsmith.sandbox.process import Tree

    workers = WorkerPool(lambda: WarmWorker(Tree, WARM[:1]), sim_jobs=1)
    forks = ForkServer() if sandbox.enterable else None
    judge = LocalJudge(workers, compiler, sandbox, arch=arch, ahead=True, progress=progress, forks=forks)
    # the last that is asked for is the first done
    for part in filter(None, (forks, workers)):
        weakref.finalize(judge, part.close)
    return judge


POOLS: dict[str, Callable[[Device, Callable[[Phase, str], None], bool], Bench]] = {"local": _local}
"""One line a pool."""


def policy(word: str, asked: "Callable[[], Policy]", station: "Station | None") -> "Policy":
    """The policy of this name; `asked` makes the agent, the built-in one runs a task's own code at the station."""
    if word == AGENT:
        return asked()
    if word == BUILTIN:
        from warpsmith.recipes import policies

        return policies.builtin(station)
    return POLICIES[word]()


def _local_fleet(device: Device, workers: int, told: Callable[[str], None]) -> "Fleet":
    from warpsmith.recipes.fleet import LocalFleet

    return LocalFleet(device, workers, told)


FLEETS: dict[str, Callable[[Device, int, Callable[[str], None]], "Fleet"]] = {"local": _local_fleet}
"""One line a pool that judges many submissions at a time."""


def fleet_maker(word: str, workers: int = 0) -> "MakeFleet":
    """Makes the pool of this name, on the simulator with so many workers, 0: as many as there are episodes at a time.

    Raises UsageError where none has that name.
    """
    if word not in FLEETS:
        raise unknown("pool", word, list(FLEETS))
    return lambda device, jobs, told: FLEETS[word](device, workers or jobs, told)
