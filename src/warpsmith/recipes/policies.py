"""Policies, made with what they need."""

from typing import TYPE_CHECKING

from warpsmith.errors import InfrastructureError, UsageError

if TYPE_CHECKING:
    from warpsmith.agent.settings import AgentSettings
    from warpsmith.llm import LLMSettings
    from warpsmith.recipes.fleet import Station
    from warpsmith.types.protocols import Policy


def builtin(station: "Station | None" = None) -> "Policy":
    """The policy that needs no language model; the task's own code runs in the station's pool."""
    from warpsmith.optimizer import BuiltinPolicy

    return BuiltinPolicy(pool=station.pool if station else None)


def agent(
    model: str | None,
    llm: "LLMSettings",
    settings: "AgentSettings",
    *,
    unsafe_local: bool = False,
    station: "Station | None" = None,
) -> "Policy":
    """The agent on a model named as BACKEND:NAME, its actions with the instruments of the station.

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
    if station is None:
        return policy_for(reached, sandbox, settings)
    return policy_for(reached, sandbox, settings, sanitizing=station.sanitizing, profiler=station.profiler)
