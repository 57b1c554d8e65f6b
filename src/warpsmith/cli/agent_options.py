"""Options of commands that let a language model work."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from warpsmith.errors import UsageError

if TYPE_CHECKING:
    from warpsmith.agent.settings import AgentSettings
    from warpsmith.evaluation.protocols import Plan
    from warpsmith.llm import LLMSettings, Price
    from warpsmith.recipes.fleet import Station
    from warpsmith.rollout import Limits
    from warpsmith.types import Device
    from warpsmith.types.protocols import Policy

ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="BACKEND:NAME",
        help="Model of the agent: openai:NAME (any compatible server), anthropic:NAME, hf:FOLDER, scripted:FILE.",
    ),
]
EndpointOption = Annotated[
    str | None,
    typer.Option("--endpoint", metavar="URL", help="Server of the model, where it is not the service's own."),
]
PriceOption = Annotated[
    str | None,
    typer.Option(
        "--price", metavar="IN,OUT[,CACHED]", help="US dollars a million tokens, for costs and --max-cost."
    ),
]
TextToolsOption = Annotated[
    bool, typer.Option("--text-tools", help="Describe tools in the prompt, for servers that know no tools.")
]
CompactOption = Annotated[
    bool, typer.Option("--compact", help="A short prompt and few tools, for small models.")
]
ContextOption = Annotated[
    int | None,
    typer.Option("--context", min=1024, metavar="TOKENS", help="What the model's server takes at most."),
]
TurnsOption = Annotated[int, typer.Option("--turns", min=1, help="At most so many turns.")]
MinutesOption = Annotated[float, typer.Option("--minutes", min=0, help="At most so many minutes of work.")]
MaxTokensOption = Annotated[
    int | None,
    typer.Option("--max-tokens", min=1, help="At most so many tokens in and out, all turns together."),
]
MaxCostOption = Annotated[
    float | None,
    typer.Option("--max-cost", min=0, metavar="USD", help="At most so much money; needs --price."),
]
SeedOption = Annotated[
    int | None, typer.Option("--seed", help="Of the model's sampling, where its service takes one.")
]
UnsafeOption = Annotated[
    bool,
    typer.Option(
        "--unsafe-local", help="Run a model's commands without isolation, with your rights. Dangerous."
    ),
]


@dataclass(frozen=True)
class AgentOptions:
    """What was asked for of the agent."""

    model: str | None
    endpoint: str | None
    price: "Price | None"
    text_tools: bool
    unsafe_local: bool
    compact: bool = False
    context: int | None = None

    @property
    def settings(self) -> "AgentSettings":
        """How the agent works."""
        from warpsmith.agent.settings import AgentSettings

        return AgentSettings(text_tools=self.text_tools, compact=self.compact)

    @property
    def llm(self) -> "LLMSettings":
        """How its model is reached."""
        from warpsmith.llm import LLMSettings

        llm = LLMSettings(endpoint=self.endpoint, price=self.price, native_tools=not self.text_tools)
        return llm if self.context is None else llm.model_copy(update={"context_tokens": self.context})

    def policy(self, device: "Device | None" = None) -> "Policy":
        """Raises UsageError, MissingExtraError and InfrastructureError as `wiring.agent`."""
        from warpsmith.cli import wiring

        return wiring.agent(
            self.model, self.llm, self.settings, device=device, unsafe_local=self.unsafe_local
        )

    def at(self, station: "Station | None", plan: "Plan | None") -> "Policy":
        """The same with the instruments of a station, as a plan has it."""
        from warpsmith.recipes import policies

        settings = plan.agent(self.settings) if plan else self.settings
        return policies.agent(self.model, self.llm, settings, unsafe_local=self.unsafe_local, station=station)


def agent_limits(
    turns: int, minutes: float, max_tokens: int | None, max_cost: float | None, price: "Price | None" = None
) -> "Limits":
    """When the episode ends at the latest. Raises UsageError for a cost that nothing could be counted against."""
    from warpsmith.rollout import Limits

    if max_cost is not None and price is None:
        raise UsageError("--max-cost needs the model's price", hint="give --price IN,OUT, as 3,15")
    return Limits(turns=turns, seconds=minutes * 60, tokens=max_tokens, cost_usd=max_cost)


def parse_price(text: str | None) -> "Price | None":
    """The price that `IN,OUT[,CACHED]` says. Raises UsageError."""
    if text is None:
        return None
    from warpsmith.llm import Price

    try:
        numbers = [float(part) for part in text.split(",")]
        return Price(**dict(zip(("input_usd", "output_usd", "cache_read_usd"), numbers, strict=False)))
    except (ValueError, TypeError):
        raise UsageError(
            f"cannot read the price {text!r}", hint="give dollars a million tokens, as 3,15"
        ) from None
