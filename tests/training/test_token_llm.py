"""Conversations as ids: nothing that was written is ever encoded again."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.agent.loop import TASK, play
from tests.training.characters import CLOSE, CharacterTokenizer

from warpsmith.agent.settings import AgentSettings
from warpsmith.errors import ContextFullError, UsageError
from warpsmith.rollout import Limits
from warpsmith.rollout.journal import journal_path, read_journal
from warpsmith.training.chat import ChatEncoder
from warpsmith.training.token_llm import Generated, TokenLLM
from warpsmith.training.trajectory import trajectory_of
from warpsmith.types import StopReason
from warpsmith.types.llm import Finish, Message, Question, Role

TOKENIZER = CharacterTokenizer()
ENCODER = ChatEncoder(TOKENIZER)


def user(text: str) -> Message:
    return Message(role=Role.USER, text=text)


def ids(text: str) -> tuple[int, ...]:
    return tuple(map(ord, text))


class Says:
    """An engine that draws the given texts one after the other; `asked` keeps the prompts as text."""

    def __init__(self, *texts: str):
        self.asked: list[str] = []
        self.limits: list[int] = []
        self._texts = list(texts)

    def __call__(self, prompt: Sequence[int], most: int, temperature: float) -> Generated:
        self.asked.append(TOKENIZER.decode(prompt))
        self.limits.append(most)
        drawn = ids(self._texts.pop(0) if len(self._texts) > 1 else self._texts[0])[:most]
        return Generated(ids=drawn, logprobs=tuple(-0.5 for _ in drawn))


def llm(engine: Says, context_tokens: int = 100_000) -> TokenLLM:
    return TokenLLM("m", ENCODER, engine, context_tokens)


def test_a_conversation_grows_by_what_is_new() -> None:
    engine = Says(f"one{CLOSE}", f"two{CLOSE}")
    model = llm(engine)
    first = model.complete(Question(messages=(user("hi"),)))
    assert (first.message.text, first.finish) == ("one", Finish.STOP)
    assert first.tokens is not None and first.tokens.ids == ids(f"one{CLOSE}")
    second = model.complete(Question(messages=(user("hi"), first.message, user("go"))))
    assert engine.asked == ["⟨u:hi⟩\n⟨a:", "⟨u:hi⟩\n⟨a:one⟩\n⟨u:go⟩\n⟨a:"]
    assert second.tokens is not None and second.tokens.prompt_ids == ids(engine.asked[1])


def test_a_reply_that_was_cut_is_closed_by_what_is_told_next() -> None:
    engine = Says("one", f"two{CLOSE}")
    model = llm(engine)
    first = model.complete(Question(messages=(user("hi"),)))
    assert first.finish is Finish.LENGTH
    model.complete(Question(messages=(user("hi"), first.message, user("go"))))
    assert engine.asked[1] == "⟨u:hi⟩\n⟨a:one⟩\n⟨u:go⟩\n⟨a:"


class Merging(CharacterTokenizer):
    """Encodes `ab` as one token, so that what was drawn as two would come back as one."""

    def encode(self, text: str, **options: Any) -> list[int]:
        return super().encode(text.replace("ab", "ß"))


def test_drawn_tokens_stay_as_they_were_drawn() -> None:
    engine = Says(f"ab{CLOSE}", "x")
    model = TokenLLM("m", ChatEncoder(Merging()), engine, 1000)
    first = model.complete(Question(messages=(user("ab"),)))
    model.complete(Question(messages=(user("ab"), first.message, user("go"))))
    assert engine.asked == ["⟨u:ß⟩\n⟨a:", "⟨u:ß⟩\n⟨a:ab⟩\n⟨u:go⟩\n⟨a:"]


def test_another_conversation_starts_anew() -> None:
    engine = Says(f"one{CLOSE}")
    model = llm(engine)
    model.complete(Question(messages=(user("hi"),)))
    model.complete(Question(messages=(user("other"),)))
    assert engine.asked[1] == "⟨u:other⟩\n⟨a:"


def test_the_context_is_never_overrun() -> None:
    engine = Says("x" * 100)
    model = llm(engine, context_tokens=20)
    reply = model.complete(Question(messages=(user("hi"),)))
    assert reply.tokens is not None and len(reply.tokens.ids) + len(reply.tokens.prompt_ids) == 20
    with pytest.raises(ContextFullError, match="takes 32 of 20 tokens"):
        model.complete(Question(messages=(user("hi"), reply.message, user("go"))))
    assert engine.limits == [10]


class Bare(CharacterTokenizer):
    def apply_chat_template(self, conversation: list[dict[str, str]], **options: Any) -> str:
        raise ValueError("no template")


class Rewriting(CharacterTokenizer):
    """Leaves out what an earlier reply said, as templates of thinking models do."""

    def apply_chat_template(self, conversation: list[dict[str, str]], **options: Any) -> str:
        kept = [
            m for n, m in enumerate(conversation) if m["role"] != "assistant" or n == len(conversation) - 1
        ]
        return super().apply_chat_template(kept, **options)


class Endless(CharacterTokenizer):
    eos_token_id = None


def test_tokenizers_that_will_not_do() -> None:
    with pytest.raises(UsageError, match="no chat template"):
        ChatEncoder(Bare())
    with pytest.raises(UsageError, match="no end-of-sequence"):
        ChatEncoder(Endless())
    with pytest.raises(UsageError, match="changes earlier messages"):
        ChatEncoder(Rewriting()).more([user("x")], closed=True)


VERIFY = '<tool_call>{"name": "Verify", "arguments": {}}</tool_call>'
WRITE = '<tool_call>{"name": "Bash", "arguments": {"command": "echo good > model_new.py"}}</tool_call>'
TRAINING = AgentSettings(keep_tokens=True, trim=False)


def test_an_episode_of_the_agent_is_one_trajectory(tmp_path: Path) -> None:
    engine = Says(WRITE + CLOSE, VERIFY + CLOSE, f"done{CLOSE}")
    episode, journal = play(tmp_path, llm(engine), settings=TRAINING)
    assert (episode.stop, episode.bad_calls) == (StopReason.FINISHED, 0)
    assert episode.answer_reward is not None and episode.answer_reward.milestone == 1
    found = trajectory_of(journal)
    written = [t for t, w in zip(found.response, found.mask, strict=True) if w]
    assert TOKENIZER.decode(written) == f"{WRITE}{CLOSE}{VERIFY}{CLOSE}done{CLOSE}"
    assert TASK.code.rstrip() in TOKENIZER.decode(found.prompt)
    assert "<tool_response>" in TOKENIZER.decode(found.response)
    assert found.response[-1] == ord(CLOSE)


def test_a_full_context_ends_the_episode_and_leaves_a_whole_trajectory(tmp_path: Path) -> None:
    longest = 60_000
    shout = '<tool_call>{"name": "Bash", "arguments": {"command": "seq 4000"}}</tool_call>'
    episode, journal = play(tmp_path, llm(Says(shout + CLOSE), longest), settings=TRAINING)
    assert episode.stop is StopReason.CONTEXT_LIMIT
    found = trajectory_of(journal)
    assert found.replies > 1 and len(found.prompt) + len(found.response) <= longest


def test_an_interrupted_episode_goes_on_with_its_tokens(tmp_path: Path) -> None:
    class Killed(Says):
        def __call__(self, prompt: Sequence[int], most: int, temperature: float) -> Generated:
            if len(self.asked) == 1:
                raise KeyboardInterrupt
            return super().__call__(prompt, most, temperature)

    with pytest.raises(KeyboardInterrupt):
        play(tmp_path, llm(Killed(WRITE + CLOSE)), settings=TRAINING)
    (path,) = (tmp_path / "journal").iterdir()
    model = llm(Says(VERIFY + CLOSE, f"done{CLOSE}"))
    model.recall(read_journal(path))
    episode, journal = play(tmp_path, model, Limits(turns=9), settings=TRAINING)
    assert journal_path(tmp_path, episode.episode_id) == path
    assert episode.answer_reward is not None and episode.answer_reward.milestone == 1
    assert trajectory_of(journal).replies == 3
