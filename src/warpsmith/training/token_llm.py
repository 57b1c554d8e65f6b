"""A language model that is asked in token ids: what training collects with, whichever engine generates."""

from collections.abc import Callable, Sequence

from pydantic import model_validator

from warpsmith.agent.text_calls import as_text
from warpsmith.errors import ContextFullError
from warpsmith.training.chat import ChatEncoder
from warpsmith.types import Record
from warpsmith.types.llm import Entry, Finish, Message, Question, Reply, Role, Tokens, Usage


class Generated(Record):
    """What an engine drew: ids and the log-probabilities that they had, the closing token with them."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]

    @model_validator(mode="after")
    def _alike(self) -> "Generated":
        if len(self.ids) != len(self.logprobs):
            raise ValueError("ids and logprobs differ in length")
        return self


Generate = Callable[[Sequence[int], int, float], Generated]
"""(prompt ids, most tokens, temperature) -> what was drawn. Raises ModelUnavailableError."""
_LEAST_ROOM = 8


class TokenLLM:
    """One conversation at a time: a question that goes on from the last reply is encoded from there.

    `name` becomes part of the policy's and so of the episode's identity. Raises ContextFullError where the prompt
    leaves no room for an answer in `context_tokens`.
    """

    native_tools = False

    def __init__(
        self,
        name: str,
        encoder: ChatEncoder,
        generate: Generate,
        context_tokens: int,
        *,
        temperature: float = 1.0,
    ):
        self.name = name
        self.context_tokens = context_tokens
        self._encoder = encoder
        self._generate = generate
        self._temperature = temperature
        self._past: tuple[Message, ...] = ()
        self._ids: list[int] = []

    def recall(self, journal: Sequence[Entry]) -> None:
        """Takes up an interrupted episode: its last reply's ids are gone on from."""
        messages: list[Message] = []
        for entry in journal:
            if entry.message is not None:
                messages.append(entry.message)
            elif entry.reply is not None:
                messages.append(entry.reply.message)
                if (tokens := entry.reply.tokens) is not None and tokens.prompt_ids:
                    self._past = as_text(messages)
                    self._ids = [*tokens.prompt_ids, *tokens.ids]

    def complete(self, question: Question, told: Callable[[str], None] | None = None) -> Reply:
        """The reply with its ids and log-probabilities."""
        prompt = self._prompt(question.messages)
        room = self.context_tokens - len(prompt)
        if room < _LEAST_ROOM:
            raise ContextFullError(
                f"the conversation takes {len(prompt)} of {self.context_tokens} tokens",
                hint="allow a longer context, or fewer turns",
            )
        temperature = self._temperature if question.temperature is None else question.temperature
        drawn = self._generate(prompt, min(room, question.max_output_tokens), temperature)
        text = self._encoder.text(drawn.ids)
        message = Message(role=Role.ASSISTANT, text=text)
        self._past, self._ids = (*question.messages, message), [*prompt, *drawn.ids]
        if told is not None and text:
            told(text)
        closed = bool(drawn.ids) and drawn.ids[-1] in self._encoder.stop_ids
        return Reply(
            message=message,
            finish=Finish.STOP if closed else Finish.LENGTH,
            usage=Usage(input_tokens=len(prompt), output_tokens=len(drawn.ids)),
            model=self.name,
            tokens=Tokens(prompt_ids=tuple(prompt), ids=drawn.ids, logprobs=drawn.logprobs),
        )

    def _prompt(self, messages: tuple[Message, ...]) -> list[int]:
        known = len(self._past)
        if known and messages[:known] == self._past and len(messages) > known:
            closed = self._ids[-1] in self._encoder.stop_ids
            return [*self._ids, *self._encoder.more(messages[known:], closed=closed)]
        return self._encoder.start(messages)
