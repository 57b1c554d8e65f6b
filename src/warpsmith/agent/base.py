"""What a tool is, and what it answers."""

import base64
from typing import Any, Literal, Protocol

from warpsmith.agent.context import ToolContext
from warpsmith.types.base import Record


class TextBlock(Record):
    """A piece of text of an answer."""

    type: Literal["text"] = "text"
    text: str


class ImageSource(Record):
    """An image's bytes in base64."""

    type: Literal["base64"] = "base64"
    media_type: str
    data: str


class ImageBlock(Record):
    """An image of an answer."""

    type: Literal["image"] = "image"
    source: ImageSource


Block = TextBlock | ImageBlock


class Answer(Record):
    """What a tool call gives back to the model. `is_error`: the call did not do what it was asked to do."""

    content: tuple[Block, ...]
    is_error: bool = False

    @property
    def text(self) -> str:
        """The text blocks, one after the other."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextBlock))


def say(text: str, *, is_error: bool = False) -> Answer:
    """An answer of one text block."""
    return Answer(content=(TextBlock(text=text),), is_error=is_error)


def image(data: bytes, media_type: str) -> ImageBlock:
    """An image block of raw bytes."""
    return ImageBlock(
        source=ImageSource(media_type=media_type, data=base64.standard_b64encode(data).decode())
    )


class Tool(Protocol):
    """One tool. `description` is the prompt that the model reads; `arguments` gives the JSON schema.

    `run` raises ToolError for what the model did wrong or can mend, InfrastructureError for what it cannot.
    """

    name: str
    description: str
    arguments: type[Record]

    def run(self, arguments: Any, context: ToolContext) -> Answer: ...
