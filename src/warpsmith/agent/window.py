"""What of a conversation the model is shown where all of it no longer fits.

In this order, each only as far as needed: old tool output is shortened, then left out; long arguments of old calls
are shortened; the oldest turns are left out. The system message, the task, the best result so far and the last
turn are never touched. Trimming goes well below the limit and then stays as it is, so that a prompt cache
keeps its prefix until the next time.
"""

import json
from collections.abc import Callable, Sequence

from warpsmith.types.llm import Message, Role, ToolSpec

PINNED = 2
"""The system message and the task."""
_RECENT = 6
"""Messages at the end that are trimmed last."""
_KEEP_CHARS = 800
_KEEP_ARGUMENT = 400
_CHARS_PER_TOKEN = 3.2
_IMAGE_TOKENS = 1600
_MESSAGE_TOKENS = 8
_FULL, _TARGET = 0.9, 0.6


class Window:
    """Trims for `limit_tokens` of context, less `reserve_tokens` for the answer.

    Tokens are estimated from characters, at the rate that the server's own counts show.
    """

    def __init__(self, limit_tokens: int, reserve_tokens: int):
        self.room = max(1, limit_tokens - reserve_tokens)
        self._per_token = _CHARS_PER_TOKEN
        self._levels: dict[int, int] = {}
        """How far each message is trimmed, by its place."""
        self._dropped = PINNED
        """Messages from PINNED up to here are left out."""

    def learn(self, shown: Sequence[Message], tools: Sequence[ToolSpec], counted_tokens: int) -> None:
        """The server counted this many tokens for what was shown."""
        estimate = self.tokens(shown, tools)
        if counted_tokens > 0 and estimate > 0:
            rate = self._per_token * estimate / counted_tokens
            self._per_token = min(6.0, max(1.0, rate))

    def tokens(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> int:
        """Estimate for messages and tools together."""
        chars = sum(len(tool.description) + len(json.dumps(tool.input_schema)) for tool in tools)
        chars += sum(_chars(message) for message in messages)
        fixed = sum(_MESSAGE_TOKENS + _IMAGE_TOKENS * len(message.images) for message in messages)
        return int(chars / self._per_token) + fixed

    def narrow(self) -> None:
        """The server refused what was thought to fit: from now on half of it is shown."""
        self.room //= 2

    def fit(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], best: str | None
    ) -> tuple[Message, ...] | None:
        """What is shown of `messages`, with the text `best` behind the task once turns are left out; None: no fit."""
        shown = self._show(messages, best)
        if self.tokens(shown, tools) <= self.room * _FULL:
            return shown
        for trim in self._steps(messages):
            trim()
            shown = self._show(messages, best)
            if self.tokens(shown, tools) <= self.room * _TARGET:
                return shown
        return shown if self.tokens(shown, tools) <= self.room else None

    def _steps(self, messages: Sequence[Message]) -> list[Callable[[], None]]:
        """The ways to save room, mildest first."""
        old = range(self._dropped, max(self._dropped, len(messages) - _RECENT))
        tools = [place for place in old if messages[place].role is Role.TOOL]
        callers = [place for place in old if messages[place].calls]
        starts = [place for place in range(self._dropped + 1, len(messages)) if _starts_turn(messages, place)]
        recent = [place for place in range(old.stop, len(messages)) if messages[place].role is Role.TOOL]
        return [
            *(self._trimming(place, 1) for place in tools),
            *(self._trimming(place, 2) for place in tools),
            *(self._trimming(place, 1) for place in callers),
            *(self._dropping(place) for place in starts),
            *(self._trimming(place, 1) for place in recent),
        ]

    def _trimming(self, place: int, level: int) -> Callable[[], None]:
        def trim() -> None:
            self._levels[place] = max(level, self._levels.get(place, 0))

        return trim

    def _dropping(self, place: int) -> Callable[[], None]:
        def drop() -> None:
            self._dropped = max(self._dropped, place)

        return drop

    def _show(self, messages: Sequence[Message], best: str | None) -> tuple[Message, ...]:
        head = list(messages[:PINNED])
        if self._dropped > PINNED or any(self._levels.values()):
            told = "Earlier turns were shortened or left out to save room; the files are as you left them."
            head[-1] = head[-1].model_copy(
                update={"text": "\n\n".join([head[-1].text, told, *([best] if best else [])])}
            )
        rest = [
            _trimmed(messages[place], self._levels.get(place, 0))
            for place in range(self._dropped, len(messages))
        ]
        return (*head, *rest)


def _starts_turn(messages: Sequence[Message], place: int) -> bool:
    """Whether the conversation may begin here: no answer to a call that is left out."""
    return messages[place].role is Role.ASSISTANT or (
        messages[place].role is Role.USER and messages[place - 1].role is not Role.ASSISTANT
    )


def _chars(message: Message) -> int:
    return len(message.text) + sum(len(call.name) + len(call.arguments) for call in message.calls)


def _trimmed(message: Message, level: int) -> Message:
    if level == 0:
        return message
    if message.calls:
        calls = tuple(
            call.model_copy(update={"arguments": _short_arguments(call.arguments)}) for call in message.calls
        )
        return message.model_copy(update={"calls": calls, "text": _cut(message.text, _KEEP_CHARS)})
    text = _cut(message.text, _KEEP_CHARS) if level == 1 else "[old output left out]"
    return message.model_copy(update={"text": text, "images": ()})


def _cut(text: str, keep: int) -> str:
    if len(text) <= keep + 60:
        return text
    half = keep // 2
    return (
        f"{text[:half]}\n[... {len(text) - 2 * half} characters of old output left out ...]\n{text[-half:]}"
    )


def _short_arguments(arguments: str) -> str:
    """The same JSON object with its long strings cut."""
    try:
        found = json.loads(arguments)
    except (ValueError, RecursionError):
        return json.dumps({"left_out": len(arguments)})
    return json.dumps(_short(found)) if isinstance(found, dict) else json.dumps({"left_out": len(arguments)})


def _short(value: object) -> object:
    if isinstance(value, str):
        return _cut(value, _KEEP_ARGUMENT)
    if isinstance(value, list):
        return [_short(part) for part in value]
    if isinstance(value, dict):
        return {name: _short(part) for name, part in value.items()}
    return value
