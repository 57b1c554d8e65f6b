"""A language model that says what a file tells it to: for tests, demonstrations and dry runs."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import Field, TypeAdapter, ValidationError

from warpsmith.errors import ModelReplyError, ModelUnavailableError, RequestRefusedError, UsageError
from warpsmith.types import Record
from warpsmith.types.llm import Finish, Message, Question, Reply, Role, ToolCall, Usage


class ScriptedCall(Record):
    """A tool call; `raw` instead of `arguments` is text that need not be JSON."""

    name: str
    arguments: dict[str, object] = Field(default_factory=dict)
    raw: str | None = None


class ScriptedReply(Record):
    """One answer: text, calls, and how it ends; `fails` raises instead (`unavailable`, `refused` or `unreadable`)."""

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    finish: Finish | None = None
    fails: str | None = None
    usage: Usage | None = None


_SCRIPT = TypeAdapter(tuple[ScriptedReply, ...])


class ScriptedLLM:
    """Gives the replies in order, chosen by how many answers the conversation holds, so that it can be resumed.

    Behind the last reply the last one is given again. `asked` keeps the questions.
    """

    native_tools = True

    def __init__(
        self,
        replies: Sequence[ScriptedReply],
        name: str = "scripted",
        context_tokens: int = 131_072,
        native_tools: bool = True,
    ):
        if not replies:
            raise UsageError("the script holds no reply", hint="give a JSON list of at least one reply")
        self.name = name
        self.context_tokens = context_tokens
        self.native_tools = native_tools
        self.asked: list[Question] = []
        self._replies = tuple(replies)
        self._given: int | None = None

    def complete(self, question: Question, told: Callable[[str], None] | None = None) -> Reply:
        """The next reply of the script."""
        self.asked.append(question)
        if self._given is None:
            # a conversation that is gone on with: what was trimmed of it cannot be counted, so only here
            self._given = sum(message.role is Role.ASSISTANT for message in question.messages)
        number, self._given = self._given, self._given + 1
        scripted = self._replies[min(number, len(self._replies) - 1)]
        if scripted.fails == "unavailable":
            self._given = number
            raise ModelUnavailableError("the script says that no answer came")
        if scripted.fails == "refused":
            self._given = number
            raise RequestRefusedError("the script says that the request is refused", hint="mend the script")
        if scripted.fails is not None:
            raise ModelReplyError("the script says that the answer cannot be read")
        if told is not None and scripted.text:
            told(scripted.text)
        calls = tuple(
            ToolCall(
                id=f"call_{number}_{index}",
                name=call.name,
                arguments=json.dumps(call.arguments) if call.raw is None else call.raw,
            )
            for index, call in enumerate(scripted.calls)
        )
        size = sum(len(message.text) for message in question.messages)
        usage = Usage(input_tokens=size // 4 + 1, output_tokens=len(scripted.text) // 4 + 1, counted=False)
        return Reply(
            message=Message(role=Role.ASSISTANT, text=scripted.text, calls=calls),
            finish=scripted.finish or (Finish.CALLS if calls else Finish.STOP),
            usage=scripted.usage or usage,
            model=self.name,
        )


def load_script(path: Path) -> tuple[ScriptedReply, ...]:
    """Reads a JSON list of replies. Raises UsageError where it cannot be read."""
    try:
        return _SCRIPT.validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read the script {path}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"the script {path} is no list of replies: {where} {first['msg']}") from error
