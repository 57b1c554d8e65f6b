"""A conversation as token ids by a tokenizer's own chat template, grown without ever encoding again what was written.

What a model wrote keeps the ids that were drawn: text decoded and encoded again may fall into other tokens, and then
the trainer's probabilities are those of something that was never said.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from warpsmith.errors import UsageError
from warpsmith.types.llm import Message, Role

_ASKED, _WROTE = "question", "answer"
_HINT = "choose an instruct model, whose tokenizer has one that only ever appends"


class Tokenizer(Protocol):
    """What is used of a Hugging Face tokenizer."""

    eos_token_id: int | None
    pad_token_id: int | None

    def apply_chat_template(self, conversation: list[dict[str, str]], **options: Any) -> Any: ...

    def encode(self, text: str, **options: Any) -> list[int]: ...

    def decode(self, token_ids: Sequence[int], **options: Any) -> str: ...


class ChatEncoder:
    """Encodes messages without calls and images (tools are told of in text, so no tokenizer needs to know of any).

    Raises UsageError where the tokenizer has no chat template, or one that changes what went before.
    """

    def __init__(self, tokenizer: Tokenizer, stop_ids: Sequence[int] = ()):
        if tokenizer.eos_token_id is None:
            raise UsageError("the tokenizer has no end-of-sequence token", hint=_HINT)
        self._tokenizer = tokenizer
        self.stop_ids = frozenset({tokenizer.eos_token_id, *stop_ids})
        """Ids that end a reply."""
        self._eos = tokenizer.eos_token_id
        self.pad_id = tokenizer.pad_token_id
        self._wrote = self._render([_plain(Role.USER, _ASKED), _plain(Role.ASSISTANT, _WROTE)])
        end = self._wrote.rfind(_WROTE) + len(_WROTE)
        closing = tokenizer.decode([self._eos], skip_special_tokens=False)
        # what follows a reply: its closing token, which the model writes itself, and then the template's own
        self._after = self._wrote[end:].removeprefix(closing)
        self._closed = self._wrote[end:].startswith(closing)

    def start(self, messages: Sequence[Message]) -> list[int]:
        """Ids of a conversation so far, up to where the model's reply begins."""
        return self._encode(self._render([_plain(m.role, m.text) for m in messages], reply=True))

    def more(self, messages: Sequence[Message], *, closed: bool) -> list[int]:
        """Ids of what is told after a reply, up to the next; `closed`: the reply ended on one of `stop_ids`."""
        before = [_plain(Role.USER, _ASKED), _plain(Role.ASSISTANT, _WROTE)]
        whole = self._render([*before, *(_plain(m.role, m.text) for m in messages)], reply=True)
        if not whole.startswith(self._wrote):
            raise UsageError("the tokenizer's chat template changes earlier messages", hint=_HINT)
        told = self._encode(self._after + whole[len(self._wrote) :])
        return told if closed or not self._closed else [self._eos, *told]

    def reply(self, text: str) -> list[int]:
        """Ids of a reply that is known as text only, closed."""
        return [*self._encode(text), self._eos]

    def text(self, ids: Sequence[int]) -> str:
        """What a reply's ids say, without what ended it; other special tokens stay, since they may mark calls."""
        end = len(ids)
        while end and ids[end - 1] in self.stop_ids:
            end -= 1
        return self._tokenizer.decode(list(ids[:end]), skip_special_tokens=False)

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def _render(self, conversation: list[dict[str, str]], *, reply: bool = False) -> str:
        try:
            return self._tokenizer.apply_chat_template(
                conversation, tokenize=False, add_generation_prompt=reply
            )
        except ValueError as error:
            raise UsageError("the tokenizer has no chat template", hint=_HINT) from error


def _plain(role: Role, text: str) -> dict[str, str]:
    return {"role": role.value, "content": text}
