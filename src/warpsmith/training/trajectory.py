"""An episode as one sequence of tokens: what the model wrote is trained on, what it was told is masked."""

from collections.abc import Sequence

from pydantic import Field, model_validator

from warpsmith.errors import UntrainableError
from warpsmith.types import Record
from warpsmith.types.llm import Entry, Reply


class Trajectory(Record):
    """One conversation. `response` holds replies and what came between them; it ends on a token of the model.

    `mask[t]`: the model wrote `response[t]`. `logprobs[t]` is its log-probability when it was drawn, 0 elsewhere.
    """

    prompt: tuple[int, ...]  # (prompt,)
    response: tuple[int, ...]  # (response,)
    mask: tuple[bool, ...]  # (response,)
    logprobs: tuple[float, ...]  # (response,)
    replies: int = Field(ge=1)
    truncated: bool = False
    """Something at the end was cut off to fit."""

    @model_validator(mode="after")
    def _holds(self) -> "Trajectory":
        if not len(self.response) == len(self.mask) == len(self.logprobs):
            raise ValueError("response, mask and logprobs differ in length")
        if not self.mask or not self.mask[-1]:
            # the reward sits on the last token: were that masked, every return would be 0 without a word
            raise ValueError("a trajectory ends on a token that the model wrote")
        if not self.prompt:
            raise ValueError("a trajectory has a prompt")
        return self

    @property
    def masked_share(self) -> float:
        """Share of the response that the model did not write."""
        return 1.0 - sum(self.mask) / len(self.mask)

    def cut(self, response_tokens: int) -> "Trajectory":
        """At most so many tokens of response, still ending on one of the model's. Raises UntrainableError."""
        if len(self.response) <= response_tokens:
            return self
        end = _last_written(self.mask[:response_tokens])
        if end == 0:
            raise UntrainableError(
                f"of the first {response_tokens} tokens of the response the model wrote none",
                hint="allow longer responses",
            )
        return self.model_copy(
            update={
                "response": self.response[:end],
                "mask": self.mask[:end],
                "logprobs": self.logprobs[:end],
                "truncated": True,
            }
        )


def trajectory_of(journal: Sequence[Entry]) -> Trajectory:
    """The trajectory of an episode's journal, from the ids that were generated, never from text.

    Raises UntrainableError where a reply lacks token ids or log-probabilities, where there is no reply, or where the
    conversation was shortened, so that a later prompt does not begin with all that went before.
    """
    replies = [entry.reply for entry in journal if entry.reply is not None]
    prompt: tuple[int, ...] = ()
    seen: list[int] = []
    response: list[int] = []
    mask: list[bool] = []
    logprobs: list[float] = []
    for number, reply in enumerate(replies):
        asked, written, drawn = _tokens(reply, number)
        if number == 0:
            prompt, seen = asked, list(asked)
        elif list(asked[: len(seen)]) != seen:
            raise UntrainableError(
                f"the prompt of reply {number} does not go on from what went before: the conversation was shortened",
                hint="collect with a longer context, or without trimming",
            )
        told = asked[len(seen) :]
        response += [*told, *written]
        mask += [False] * len(told) + [True] * len(written)
        logprobs += [0.0] * len(told) + list(drawn)
        seen = [*asked, *written]
    end = _last_written(mask)
    if end == 0:
        raise UntrainableError("the model wrote nothing in this episode")
    return Trajectory(
        prompt=prompt,
        response=tuple(response[:end]),
        mask=tuple(mask[:end]),
        logprobs=tuple(logprobs[:end]),
        replies=len(replies),
    )


def _tokens(reply: Reply, number: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]:
    tokens = reply.tokens
    if tokens is None or not tokens.prompt_ids or len(tokens.ids) != len(tokens.logprobs):
        raise UntrainableError(
            f"reply {number} lacks token ids or log-probabilities",
            hint="collect with a model whose server tells them; such an episode can feed rft alone",
        )
    return tokens.prompt_ids, tokens.ids, tokens.logprobs


def _last_written(mask: Sequence[bool]) -> int:
    """Tokens up to the last one that the model wrote."""
    return next((at + 1 for at in range(len(mask) - 1, -1, -1) if mask[at]), 0)
