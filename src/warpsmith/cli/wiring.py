"""Turns words of the command line into a device, a policy and a judge, importing only what they need."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warpsmith.cli.options import unknown
from warpsmith.errors import InfrastructureError, UsageError
from warpsmith.types import Device, Phase, Target

if TYPE_CHECKING:
    from warpsmith.agent.settings import AgentSettings
    from warpsmith.gpu.devices import GpuInfo
    from warpsmith.llm import LLMSettings
    from warpsmith.types.protocols import Compiler, GpuPool, Judge, Policy

AUTO = "auto"


def _builtin() -> "Policy":
    from warpsmith.optimizer import BuiltinPolicy

    return BuiltinPolicy()


POLICIES: dict[str, Callable[[], "Policy"]] = {"builtin": _builtin}
"""One line a policy that needs no options."""
LEAST_ISOLATION = "WARPSMITH_LEAST_ISOLATION"
"""Environment variable: the weakest sandbox that submissions may run in; below it every command refuses to judge."""
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
    model: str | None, llm: "LLMSettings", settings: "AgentSettings", *, unsafe_local: bool = False
) -> "Policy":
    """The agent on a model named as BACKEND:NAME.

    Raises UsageError for a missing or unknown model or key, InfrastructureError where nothing isolates its commands.
    """
    if not model:
        raise UsageError("the agent needs a model", hint="give --model openai:NAME or anthropic:NAME")
    from warpsmith.agent.policy import AgentPolicy
    from warpsmith.llm import connect
    from warpsmith.sandbox import LocalSandbox, best_available

    reached = connect(model, llm)
    sandbox = LocalSandbox() if unsafe_local else best_available()
    if isinstance(sandbox, LocalSandbox) and not unsafe_local:
        raise InfrastructureError(
            "nothing here isolates the commands that a model runs",
            hint="see warpsmith doctor, or accept the danger with --unsafe-local",
        )
    return AgentPolicy(reached, sandbox, settings)


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
    from warpsmith.sandbox import best_available

    arch = _gpus()[0].arch if device is Device.CUDA else ""
    compiler, sandbox = LocalCompiler(), best_available(os.environ.get(LEAST_ISOLATION) or "none")
    judge = LocalJudge(pool(), compiler, sandbox, arch=arch, ahead=ahead, progress=progress)
    if ahead:
        judge.prepare(device)
    return Bench(judge, compiler, Target(device=device, arch=arch), sandbox.name)


POOLS: dict[str, Callable[[Device, Callable[[Phase, str], None], bool], Bench]] = {"local": _local}
"""One line a pool."""
