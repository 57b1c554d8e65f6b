"""Gathering a reply that comes in pieces."""

import time
from collections.abc import Callable

from warpsmith.llm.settings import LLMSettings
from warpsmith.types.llm import ToolCall

_CHARS_PER_TOKEN = 12
"""More than any tokenizer's mean: a server that sends more ignores the limit it was given."""


class Gathered:
    """Text, thoughts and calls so far."""

    def __init__(self, settings: LLMSettings, max_output_tokens: int, told: Callable[[str], None] | None):
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self._calls: dict[int, list[str]] = {}
        self._told = told
        self._until = time.monotonic() + settings.request_s
        self._room = max_output_tokens * _CHARS_PER_TOKEN

    def add_text(self, piece: str) -> None:
        """The next piece of the answer."""
        self.text.append(piece)
        self._room -= len(piece)
        if self._told is not None and piece:
            self._told(piece)

    def add_call(self, index: int, call_id: str = "", name: str = "", arguments: str = "") -> None:
        """The next piece of call number `index`."""
        call = self._calls.setdefault(index, ["", "", ""])
        call[0] = call[0] or call_id
        call[1] += name
        call[2] += arguments
        self._room -= len(arguments)

    def add_reasoning(self, piece: str) -> None:
        """The next piece of thoughts."""
        self.reasoning.append(piece)
        self._room -= len(piece)

    @property
    def too_much(self) -> bool:
        """Whether the answer is longer or slower than may be."""
        return self._room < 0 or time.monotonic() > self._until

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls in order, each with an id of its own."""
        taken: set[str] = set()
        calls = []
        for index, (call_id, name, arguments) in sorted(self._calls.items()):
            unique = call_id if call_id and call_id not in taken else f"{call_id or 'call'}_{index}"
            taken.add(unique)
            calls.append(ToolCall(id=unique, name=name, arguments=arguments))
        return tuple(calls)
