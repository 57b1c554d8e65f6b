"""How the agent works."""

from pydantic import Field

from warpsmith.types import Record


class AgentSettings(Record):
    """`context_tokens` is also bounded by what the model takes."""

    context_tokens: int = Field(131_072, ge=1024)
    max_output_tokens: int = Field(8192, ge=16)
    temperature: float | None = None
    keep_tokens: bool = False
    """Keep token ids and log-probabilities, where the server tells them."""
    text_tools: bool = False
    """Describe tools in the prompt, though the service knows tools."""
    trim: bool = True
    """False: a conversation is never shortened, as training wants it; where it no longer fits, the episode ends."""
    skill: bool = True
    """Give it SKILL.md and the pages that it names, in its folder and its prompt."""
    loop: bool = True
    """False: one answer in text, without tools; its fenced files are the submission."""
    compact: bool = False
    """A short prompt and few tools, for small models and contexts; the skill lies in the workspace all the same."""
    max_disk_bytes: int = 4 << 30
    max_files: int = 100_000
    max_repeats: int = 6
    """So many turns alike in a row end the episode."""
