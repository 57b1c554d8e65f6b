"""Policies, made with what they need."""

from typing import TYPE_CHECKING

from warpsmith.errors import InfrastructureError, UsageError

if TYPE_CHECKING:
    from warpsmith.agent.actions import Profiler
    from warpsmith.agent.settings import AgentSettings
    from warpsmith.llm import LLMSettings
    from warpsmith.types.protocols import GpuPool, Judge, Policy


def builtin(pool: "GpuPool | None" = None) -> "Policy":
    """The policy that needs no language model; the task's own code runs in `pool`."""
    from warpsmith.optimizer import BuiltinPolicy

    return BuiltinPolicy(pool=pool)


def agent(
    model: str | None,
    llm: "LLMSettings",
    settings: "AgentSettings",
    *,
    unsafe_local: bool = False,
    sanitizing: "Judge | None" = None,
    profiler: "Profiler | None" = None,
) -> "Policy":
    """The agent on a model named as BACKEND:NAME, its actions with the instruments given.

    Raises UsageError for a missing or unknown model or key, InfrastructureError where nothing isolates its commands.
    """
    if not model:
        raise UsageError("the agent needs a model", hint="give --model openai:NAME or anthropic:NAME")
    from warpsmith.agent.policy import policy_for
    from warpsmith.llm import connect
    from warpsmith.sandbox import LocalSandbox, best_available

    reached = connect(model, llm)
    sandbox = LocalSandbox() if unsafe_local else best_available()
    if isinstance(sandbox, LocalSandbox) and not unsafe_local:
        raise InfrastructureError(
            "nothing here isolates the commands that a model runs",
            hint="see warpsmith doctor, or accept the danger with --unsafe-local",
        )
    return policy_for(reached, sandbox, settings, sanitizing=sanitizing, profiler=profiler)
