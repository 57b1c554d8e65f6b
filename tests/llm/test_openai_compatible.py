"""The backend against a real server that fails as servers do."""

import json

import pytest
from tests.llm.server import USAGE, Answer, body, delta, endless, events, serving, silent, status

from warpsmith.errors import ModelReplyError, ModelUnavailableError, RequestRefusedError, UsageError
from warpsmith.llm import LLMSettings, Price, connect
from warpsmith.llm.openai_compatible import OpenAICompatible
from warpsmith.types.llm import Finish, Message, Question, Role, ToolCall, ToolSpec

HELLO = Question(messages=(Message(role=Role.USER, text="hello"),), max_output_tokens=20)
FINE = events(delta("he"), delta("llo", finish="stop"), USAGE)


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def model(url: str, waits: list[float] | None = None, **settings: object) -> OpenAICompatible:
    fields = {"endpoint": url, "attempts": 3, "silence_s": 5.0} | settings
    return OpenAICompatible(
        "tiny", LLMSettings.model_validate(fields), sleep=(waits if waits is not None else []).append
    )


def test_streams_text_and_takes_the_servers_counts() -> None:
    heard: list[str] = []
    with serving(FINE) as served:
        price = Price(input_usd=10, output_usd=100)
        reply = model(served.url, price=price).complete(HELLO, heard.append)
    assert reply.message.text == "hello" and "".join(heard) == "hello"
    usage = reply.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.counted) == (
        100,
        7,
        60,
        True,
    )
    assert usage.cost_usd == pytest.approx((40 * 10 + 60 * 1 + 7 * 100) / 1e6)
    assert served.asked[0]["max_tokens"] == 20


def test_gathers_two_calls_that_come_in_pieces() -> None:
    pieces = (
        delta(calls=[{"index": 0, "id": "a", "function": {"name": "Read", "arguments": '{"file'}}]),
        delta(calls=[{"index": 0, "function": {"arguments": '_path": "x"}'}}]),
        delta(calls=[{"index": 1, "id": "a", "function": {"name": "Glob", "arguments": '{"pat'}}]),
        delta(finish="tool_calls"),
    )
    with serving(events(*pieces)) as served:
        reply = model(served.url).complete(HELLO)
    assert reply.finish is Finish.CALLS
    assert reply.message.calls == (
        ToolCall(id="a", name="Read", arguments='{"file_path": "x"}'),
        ToolCall(id="a_1", name="Glob", arguments='{"pat'),
    )


@pytest.mark.parametrize("stream", [True, False])
def test_rate_limit_is_waited_for_as_long_as_the_server_says(stream: bool) -> None:
    whole = {"model": "tiny", "choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}
    waits: list[float] = []
    last = FINE if stream else body(json.dumps(whole))
    with serving(status(429, Retry_After="7"), status(503), last) as served:
        reply = model(served.url, waits, stream=stream).complete(HELLO)
    assert reply.attempts == 3 and len(served.asked) == 3
    assert waits[0] == 7.0 and 1.5 <= waits[1] <= 2.0


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (status(500), ModelUnavailableError),
        (status(429), ModelUnavailableError),
        (silent(1.0), ModelUnavailableError),
        (events(), ModelReplyError),
        (events(delta("half"), done=False), ModelReplyError),
        (body("data: {not json\n\n", "text/event-stream"), ModelReplyError),
        (body("<html>busy</html>", "text/html"), ModelReplyError),
        (events({"choices": "none"}), ModelReplyError),
        (events(delta("hi", finish="stop"), {**USAGE, "usage": {"completion_tokens": "x"}}), ModelReplyError),
    ],
)
def test_what_stays_broken_is_told_apart(answer: Answer, error: type[Exception]) -> None:
    with serving(answer) as served, pytest.raises(error):
        model(served.url, attempts=2, silence_s=0.3).complete(HELLO)
    assert len(served.asked) == 2


@pytest.mark.parametrize(
    "text", ["{not json", "[]", '{"choices": []}', '{"choices": [{}]}', '{"choices": null}']
)
def test_unreadable_answers_without_streaming(text: str) -> None:
    with serving(body(text)) as served, pytest.raises(ModelReplyError):
        model(served.url, attempts=2, stream=False).complete(HELLO)
    assert len(served.asked) == 2


def test_refused_requests_are_not_repeated_and_no_message_holds_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with serving(status(401)) as served, pytest.raises(RequestRefusedError) as raised:
        model(served.url).complete(HELLO)
    assert len(served.asked) == 1
    assert "sk-secret" not in f"{raised.value} {raised.value.hint}"


def test_a_server_that_never_stops_is_cut() -> None:
    with serving(endless(delta("again " * 20))) as served:
        reply = model(served.url).complete(HELLO)
    assert reply.finish is Finish.LENGTH and 240 < len(reply.message.text) < 500
    with serving(endless(delta(""))) as served:
        assert model(served.url, request_s=0.3).complete(HELLO).finish is Finish.LENGTH


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(ModelUnavailableError):
        model("http://127.0.0.1:9/v1").complete(HELLO)


def test_what_is_sent() -> None:
    call = ToolCall(id="c", name="Read", arguments="{cut")
    question = Question(
        messages=(
            Message(role=Role.SYSTEM, text="s"),
            Message(role=Role.ASSISTANT, calls=(call,)),
            Message(role=Role.TOOL, text="no", call_id="c", is_error=True),
        ),
        tools=(ToolSpec(name="Read", description="d", input_schema={"type": "object"}),),
        keep_tokens=True,
        seed=7,
    )
    token = delta("x", finish="stop")
    token["choices"][0] |= {
        "token_ids": [5],
        "logprobs": {"content": [{"token": "x", "logprob": -0.5, "top_logprobs": []}]},
    }
    with serving(events(token | {"prompt_token_ids": [1, 2]})) as served:
        reply = model(served.url).complete(question)
    sent = served.asked[0]
    assert sent["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"unreadable": "{cut"}'
    assert sent["messages"][2] == {"role": "tool", "tool_call_id": "c", "content": "no"}
    assert sent["tools"][0]["function"]["name"] == "Read" and sent["logprobs"] is True
    assert sent["seed"] == 7
    assert reply.tokens is not None
    assert (reply.tokens.prompt_ids, reply.tokens.ids, reply.tokens.logprobs) == ((1, 2), (5,), (-0.5,))


def test_the_limit_is_named_as_the_server_knows_it_and_a_seed_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    question = HELLO.model_copy(update={"seed": 5})
    for newer in (True, None):
        with serving(FINE) as served:
            model(served.url, completion_limit=newer).complete(question)
        word, other = ("max_completion_tokens", "max_tokens")[:: 1 if newer else -1]
        assert served.asked[0][word] == 20 and other not in served.asked[0]
        assert served.asked[0]["seed"] == 5
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    service = OpenAICompatible("tiny", LLMSettings())
    assert service._request(HELLO)["max_completion_tokens"] == 20 and "seed" not in service._request(HELLO)


def test_names_and_keys() -> None:
    for wrong in ("gpt", "nobody:x", "openai:"):
        with pytest.raises(UsageError):
            connect(wrong)
    with pytest.raises(UsageError, match="no key"):
        connect("openai:gpt")
