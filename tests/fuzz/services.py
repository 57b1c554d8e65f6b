"""A language model's service that answers what it should not, in one body or in a stream."""

import importlib
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st
from tests.fuzz.mutations import foreign

from warpsmith.errors import ModelReplyError, ModelUnavailableError, RequestRefusedError
from warpsmith.llm import LLMSettings
from warpsmith.llm.openai_compatible import OpenAICompatible
from warpsmith.types.llm import Message, Question, Reply, Role

CALL = {"index": 0, "id": "a", "function": {"name": "Read", "arguments": '{"file_path": "x"}'}}
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}
WHOLE = {
    "model": "m",
    "choices": [{"message": {"content": "hi", "tool_calls": [CALL]}, "finish_reason": "stop"}],
    "usage": USAGE,
}
CHUNK = {
    "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
    "choices": [{"index": 0, "delta": {"content": "hi", "tool_calls": [CALL]}, "finish_reason": None}],
}  # fmt: skip
LAST = {**CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": USAGE}
HELLO = Question(messages=(Message(role=Role.USER, text="hello"),), max_output_tokens=20)


def service_targets() -> Iterator[tuple[str, st.SearchStrategy, Callable[[Any], None]]]:
    """Name, examples and reader; none without the package that speaks to such services."""
    try:
        import openai
    except ImportError:
        return
    # its own classes tell which package it speaks with
    httpx = importlib.import_module(openai.DefaultHttpxClient.__mro__[-2].__module__.partition(".")[0])
    body: list[bytes] = []

    def answer(request: object) -> object:
        return httpx.Response(200, content=body[0])

    client = openai.OpenAI(
        api_key="none", base_url="http://service/v1", max_retries=0,
        http_client=httpx.Client(transport=httpx.MockTransport(answer)),
    )  # fmt: skip

    def reader(*, stream: bool) -> Callable[[bytes], None]:
        settings = LLMSettings(endpoint="http://service/v1", attempts=1, stream=stream)
        llm = OpenAICompatible("m", settings, sleep=lambda s: None)
        llm._client = client

        def read(data: bytes) -> None:
            body[:] = [data]
            try:
                reply = llm.complete(HELLO)
            except (ModelReplyError, ModelUnavailableError, RequestRefusedError) as error:
                assert "\n" not in str(error)
            else:
                assert Reply.model_validate_json(reply.model_dump_json()) == reply

        return read

    def events(chunks: list[bytes]) -> bytes:
        return b"".join(b"data: " + chunk + b"\n\n" for chunk in [*chunks, b"[DONE]"])

    streams = st.lists(foreign([CHUNK, LAST]), min_size=1, max_size=4).map(events)
    yield "a service's answer", foreign([WHOLE]), reader(stream=False)
    yield "a service's stream", streams, reader(stream=True)
