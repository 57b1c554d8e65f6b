"""What was said in an episode: a list of messages that the journal holds too, and goes on from."""

import hashlib
import json

from warpsmith.agent.prompt import LOST_CALL
from warpsmith.types.llm import Message, Reply, Role, ToolCall, Usage
from warpsmith.types.protocols import Environment


class Conversation:
    """The messages so far. Everything added is in the journal before it counts.

    `turn` is the turn under way, from 0; `usage` what its replies took; `calls` and `bad_calls` count its calls.
    """

    def __init__(self, env: Environment):
        self.messages: list[Message] = []
        self.turn = len(env.past_turns)
        self.usage = Usage()
        self.calls = self.bad_calls = 0
        self.reply: Reply | None = None
        """The turn's reply, once there is one."""
        self._env = env
        for entry in env.journal:
            if entry.reply is not None:
                self.messages.append(entry.reply.message)
                if entry.turn == self.turn:
                    self.usage = self.usage.plus(entry.reply.usage)
                    self.reply = entry.reply
            elif entry.message is not None:
                self.messages.append(entry.message)
        self.resumed = bool(self.messages)

    def say(self, message: Message) -> None:
        """Adds a message to the model."""
        self._env.keep(self.turn, message)
        self.messages.append(message)

    def hear(self, reply: Reply) -> None:
        """Adds the model's answer."""
        self._env.keep(self.turn, reply)
        self.messages.append(reply.message)
        self.usage = self.usage.plus(reply.usage)
        self.reply = reply

    def next_turn(self) -> None:
        """The turn under way is over."""
        self.turn += 1
        self.usage, self.calls, self.bad_calls, self.reply = Usage(), 0, 0, None

    def close_open_calls(self) -> None:
        """Answers calls that an interruption left without an answer."""
        answered = {message.call_id for message in self.messages if message.role is Role.TOOL}
        last = next((m for m in reversed(self.messages) if m.role is Role.ASSISTANT), None)
        for call in last.calls if last else ():
            if call.id not in answered:
                self.say(Message(role=Role.TOOL, text=LOST_CALL, call_id=call.id, is_error=True))


class Repetition:
    """Counts how often in a row a turn made the same calls with the same results, or said the same."""

    def __init__(self) -> None:
        self.times = 0
        self._last = ""

    def seen(self, calls: tuple[ToolCall, ...], said: str, results: list[str]) -> int:
        """How often this came now, in a row."""
        content = json.dumps([[(c.name, c.arguments) for c in calls], said if not calls else "", results])
        digest = hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()
        self.times = self.times + 1 if digest == self._last else 1
        self._last = digest
        return self.times
