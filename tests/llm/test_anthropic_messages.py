"""The backend against a real server that streams the interface's events."""

import pytest
from tests.llm.server import Answer, body, events, serving, status

from warpsmith.errors import ModelReplyError, ModelUnavailableError, RequestRefusedError
from warpsmith.llm import LLMSettings
from warpsmith.llm.anthropic_messages import AnthropicMessages
from warpsmith.types.llm import Finish, Message, Question, Role, ToolCall

START = {
    "type": "message_start",
    "message": {
        "id": "m", "type": "message", "role": "assistant", "model": "tiny", "content": [], "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 1,
                  "cache_read_input_tokens": 80, "cache_creation_input_tokens": 15},
    },
}  # fmt: skip
CHUNKS = (
    START,
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "look"}},
    {"type": "content_block_start", "index": 1,
     "content_block": {"type": "tool_use", "id": "t", "name": "Read", "input": {}}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"a": 1}'}},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None},
     "usage": {"output_tokens": 9}},
)  # fmt: skip


def stream(*chunks: dict[str, object]) -> Answer:
    import json

    text = "".join(f"event: {chunk['type']}\ndata: {json.dumps(chunk)}\n\n" for chunk in chunks)
    return body(text, "text/event-stream")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")


def model(url: str) -> AnthropicMessages:
    settings = LLMSettings(endpoint=url.removesuffix("/v1"), attempts=2, silence_s=5.0)
    return AnthropicMessages("tiny", settings, sleep=lambda _: None)


QUESTION = Question(
    messages=(
        Message(role=Role.SYSTEM, text="s"),
        Message(role=Role.USER, text="go"),
        Message(role=Role.ASSISTANT, calls=(ToolCall(id="c", name="Read", arguments="{cut"),)),
        Message(role=Role.TOOL, text="no", call_id="c", is_error=True),
        Message(role=Role.USER, text="on"),
    )
)


def test_a_reply_its_counts_and_what_was_sent() -> None:
    with serving(status(529), stream(*CHUNKS)) as served:
        reply = model(served.url).complete(QUESTION)
    assert reply.message.text == "look" and reply.attempts == 2 and reply.finish is Finish.CALLS
    assert reply.message.calls == (ToolCall(id="t", name="Read", arguments='{"a": 1}'),)
    usage = reply.usage
    assert (usage.input_tokens, usage.output_tokens) == (100, 9)
    assert (usage.cache_read_tokens, usage.cache_write_tokens) == (80, 15)
    sent = served.asked[0]
    assert sent["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert [m["role"] for m in sent["messages"]] == ["user", "assistant", "user"]
    answer, said = sent["messages"][2]["content"]
    assert (
        answer["tool_use_id"] == "c" and answer["is_error"] and said["cache_control"] == {"type": "ephemeral"}
    )


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (status(500), ModelUnavailableError),
        (stream(*CHUNKS[:3]), ModelReplyError),
        (events(), ModelReplyError),
        (body("event: message_start\ndata: {not\n\n", "text/event-stream"), ModelReplyError),
        (status(403), RequestRefusedError),
    ],
)
def test_failures(answer: Answer, error: type[Exception]) -> None:
    with serving(answer) as served, pytest.raises(error) as raised:
        model(served.url).complete(QUESTION)
    assert "sk-secret" not in f"{raised.value} {getattr(raised.value, 'hint', '')}"
