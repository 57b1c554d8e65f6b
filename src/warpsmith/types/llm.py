"""What is said to a language model and what it answers, whichever service runs it."""

import json
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Protocol

from pydantic import Field

from warpsmith.types.base import Record


class Role(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class ToolCall(Record):
    """A call that the model asks for; `arguments` is its text as it came, which need not be JSON."""

    id: str
    name: str
    arguments: str

    def as_object(self) -> dict[str, Any]:
        """The arguments as a JSON object; text that is none stands in one, under `unreadable`."""
        try:
            found = json.loads(self.arguments)
        except (ValueError, RecursionError):
            return {"unreadable": self.arguments} if self.arguments else {}
        return found if isinstance(found, dict) else {"unreadable": self.arguments}


class ToolSpec(Record):
    """A tool that the model is told of; `input_schema` is JSON schema."""

    name: str
    description: str
    input_schema: dict[str, Any]


class Image(Record):
    """An image's bytes in base64."""

    media_type: str
    data: str


class Message(Record):
    """One message of a conversation; `call_id` names the call that a tool message answers."""

    role: Role
    text: str = ""
    images: tuple[Image, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    is_error: bool = False


class Finish(StrEnum):
    """Why a reply ends."""

    STOP = "stop"
    CALLS = "calls"
    LENGTH = "length"
    FILTERED = "filtered"


class Usage(Record):
    """Tokens, as the server counted them where `counted`, else estimated; cost where a price is known.

    `input_tokens` holds those read from and written to a prompt cache too.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = None
    counted: bool = True

    @property
    def tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def plus(self, other: "Usage") -> "Usage":
        """The sum; its cost is that of what has one."""
        costs = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            cost_usd=sum(costs) if costs else None,
            counted=self.counted and other.counted,
        )


class Tokens(Record):
    """What training needs of a reply, where told: ids of prompt and reply, the reply's log-probabilities.

    They are the model's own, at temperature 1, whatever it was sampled with.
    """

    prompt_ids: tuple[int, ...] = ()
    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()


class Question(Record):
    """One request."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int = Field(8192, ge=1)
    temperature: float | None = None
    seed: int | None = Field(None, ge=0, lt=1 << 31)
    """Asked of services that take one; few promise the same answer for it."""
    keep_tokens: bool = False
    """Ask for token ids and log-probabilities."""


class Reply(Record):
    """One answer. `attempts` counts requests, failed ones too."""

    message: Message
    finish: Finish
    usage: Usage
    model: str
    """The name that the server gives."""
    tokens: Tokens | None = None
    reasoning: str = ""
    """Thoughts that the server shows beside the answer."""
    attempts: int = 1
    seconds: float = 0.0


class Entry(Record):
    """One line of an episode's journal, in the order in which things happened: one of its last three fields."""

    turn: int
    at: str
    message: Message | None = None
    """What the model was told."""
    reply: Reply | None = None
    """What it answered."""
    judged: str | None = None
    """Hash of a submission that was judged."""
    verdict_hash: str | None = None


class LLM(Protocol):
    """A language model. Safe to use from one thread at a time.

    `complete` raises ModelUnavailableError where no answer came though it was asked again, ModelReplyError where
    answers came that cannot be read, RequestRefusedError where asking again would not help. `told` is called
    with each piece of text as it comes, where the service streams.
    """

    name: str
    context_tokens: int
    native_tools: bool
    """False: tools are described in the prompt, and calls are read out of the text."""

    def complete(self, question: Question, told: Callable[[str], None] | None = None) -> Reply: ...
