"""How models are reached. Keys are no settings: they come from the environment alone."""

from pydantic import Field

from warpsmith.types import Record
from warpsmith.types.llm import Usage


class Price(Record):
    """US dollars a million tokens; what is read from a prompt cache costs a tenth of the input unless given."""

    input_usd: float = Field(ge=0)
    output_usd: float = Field(ge=0)
    cache_read_usd: float | None = Field(None, ge=0)

    def of(self, usage: Usage) -> Usage:
        """`usage` with its cost; what is written to a cache is charged as 1.25 times the input."""
        read = self.input_usd / 10 if self.cache_read_usd is None else self.cache_read_usd
        fresh = usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens
        millionths = (
            fresh * self.input_usd
            + usage.cache_read_tokens * read
            + usage.cache_write_tokens * self.input_usd * 1.25
            + usage.output_tokens * self.output_usd
        )
        return usage.model_copy(update={"cost_usd": millionths / 1e6})


class LLMSettings(Record):
    """`endpoint` replaces the service's own address; `attempts` counts the first request too."""

    endpoint: str | None = None
    context_tokens: int = Field(131_072, ge=1024)
    attempts: int = Field(6, ge=1)
    first_wait_s: float = Field(1.0, ge=0)
    longest_wait_s: float = Field(60.0, ge=0)
    silence_s: float = Field(120.0, gt=0)
    """Longest time without a byte from the server."""
    request_s: float = Field(900.0, gt=0)
    """Longest time that one answer may take; it is cut then."""
    stream: bool = True
    native_tools: bool = True
    price: Price | None = None
