"""Servers that speak OpenAI's chat completions: the service itself, vLLM, SGLang, llama.cpp, and hosted others.

The key is read from OPENAI_API_KEY; a server given with `endpoint` needs none. `endpoint` or OPENAI_BASE_URL is the
server's address, which ends in /v1.
"""

import json
import os
import time
from collections.abc import Callable
from typing import Any

from warpsmith.errors import MissingExtraError, ModelReplyError, UsageError
from warpsmith.llm.failures import failures
from warpsmith.llm.retry import TryAgain, answered
from warpsmith.llm.settings import LLMSettings
from warpsmith.llm.stream import Gathered
from warpsmith.types.llm import Finish, Message, Question, Reply, Role, Tokens, Usage

_KEY = "OPENAI_API_KEY"
_FINISH = {
    "stop": Finish.STOP,
    "tool_calls": Finish.CALLS,
    "function_call": Finish.CALLS,
    "length": Finish.LENGTH,
    "content_filter": Finish.FILTERED,
}


class OpenAICompatible:
    """Implements `LLM`. Raises UsageError without a key for the service, MissingExtraError without `openai`."""

    def __init__(self, model: str, settings: LLMSettings, sleep: Callable[[float], None] = time.sleep):
        try:
            import openai
        except ImportError as error:
            raise MissingExtraError("openai is not installed", hint="pip install 'warpsmith[llm]'") from error
        endpoint = settings.endpoint or os.environ.get("OPENAI_BASE_URL") or None
        key = os.environ.get(_KEY)
        if not key and not endpoint:
            raise UsageError(f"no key for {model}", hint=f"set {_KEY}, or name a server with --endpoint")
        self.name = f"openai:{model}"
        self.context_tokens = settings.context_tokens
        self.native_tools = settings.native_tools
        self._model, self._settings, self._sleep = model, settings, sleep
        # the service's newer models refuse the older word, which is the one that all other servers know
        newer = not endpoint if settings.completion_limit is None else settings.completion_limit
        self._limit = "max_completion_tokens" if newer else "max_tokens"
        self._sdk = openai
        # servers of one's own ask for no key, the package for any
        self._client = openai.OpenAI(
            api_key=key or "none",
            base_url=endpoint,
            max_retries=0,
            timeout=settings.silence_s,
        )

    def complete(self, question: Question, told: Callable[[str], None] | None = None) -> Reply:
        """Asks, and asks again as `settings` say."""
        request = self._request(question)
        return answered(
            lambda: (
                self._streamed(request, question, told) if self._settings.stream else self._whole(request)
            ),
            self._settings,
            self._sleep,
        )

    def _request(self, question: Question) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self._model,
            "messages": [part for message in question.messages for part in _wire(message)],
            self._limit: question.max_output_tokens,
        }
        if question.tools:
            request["tools"] = [
                {
                    "type": "function",
                    "function": {"name": t.name, "description": t.description, "parameters": t.input_schema},
                }
                for t in question.tools
            ]
        if question.temperature is not None:
            request["temperature"] = question.temperature
        if question.seed is not None:
            request["seed"] = question.seed
        if question.keep_tokens:
            request["logprobs"] = True
            request["extra_body"] = {"return_token_ids": True}
        return request

    def _whole(self, request: dict[str, Any]) -> Reply:
        with failures(self._sdk, _KEY):
            # read as it came: what is no JSON, or not of this shape, is told apart below
            raw = self._client.chat.completions.with_raw_response.create(**request)
            answer = json.loads(raw.text() if callable(raw.text) else raw.text)
            choice = answer["choices"][0]
            said = choice["message"]
            gathered = Gathered(self._settings, request[self._limit], None)
            gathered.add_text(said.get("content") or "")
            gathered.add_reasoning(said.get("reasoning_content") or "")
            for index, call in enumerate(said.get("tool_calls") or ()):
                function = call["function"]
                gathered.add_call(index, call.get("id") or "", function["name"], _text(function["arguments"]))
            tokens = _Tokens()
            tokens.add(answer, choice)
            return _reply(
                gathered, choice.get("finish_reason"), answer.get("usage"), answer.get("model"), tokens
            )

    def _streamed(
        self, request: dict[str, Any], question: Question, told: Callable[[str], None] | None
    ) -> Reply:
        gathered, tokens = Gathered(self._settings, question.max_output_tokens, told), _Tokens()
        finish: str | None = None
        usage: dict[str, Any] | None = None
        model = self._model
        chunks = 0
        with failures(self._sdk, _KEY):
            options = {"stream": True, "stream_options": {"include_usage": True}}
            with self._client.chat.completions.create(**request, **options) as stream:
                for event in stream:
                    chunk = event.model_dump(warnings=False)
                    model, usage = chunk.get("model") or model, chunk.get("usage") or usage
                    for choice in (chunk.get("choices") or ())[:1]:
                        chunks += 1
                        tokens.add(chunk, choice)
                        finish = choice.get("finish_reason") or finish
                        _take(choice.get("delta") or {}, gathered)
                    if gathered.too_much:
                        finish = "length"
                        break
            if not chunks or finish is None:
                # a stream that breaks off is no answer
                raise TryAgain(ModelReplyError("the server's answer holds no choice or breaks off"))
            return _reply(gathered, finish, usage, model, tokens)


class _Tokens:
    """Ids and log-probabilities, of servers that tell them."""

    def __init__(self) -> None:
        self.prompt: list[int] = []
        self.ids: list[int] = []
        self.logprobs: list[float] = []

    def add(self, answer: dict[str, Any], choice: dict[str, Any]) -> None:
        self.prompt = self.prompt or answer.get("prompt_token_ids") or choice.get("prompt_token_ids") or []
        self.ids += choice.get("token_ids") or ()
        listed = (choice.get("logprobs") or {}).get("content") or ()
        self.logprobs += (token["logprob"] for token in listed)

    def record(self) -> Tokens | None:
        if not (self.ids or self.logprobs):
            return None
        return Tokens(prompt_ids=tuple(self.prompt), ids=tuple(self.ids), logprobs=tuple(self.logprobs))


def _take(delta: dict[str, Any], gathered: Gathered) -> None:
    gathered.add_text(delta.get("content") or "")
    gathered.add_reasoning(delta.get("reasoning_content") or "")
    for at, call in enumerate(delta.get("tool_calls") or ()):
        function = call.get("function") or {}
        index = call.get("index")
        gathered.add_call(
            at if index is None else index,
            call.get("id") or "",
            function.get("name") or "",
            _text(function.get("arguments")),
        )


def _text(arguments: Any) -> str:
    """Some servers give arguments as an object."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments) if arguments else ""


def _reply(
    gathered: Gathered, finish: str | None, usage: dict[str, Any] | None, model: str | None, tokens: _Tokens
) -> Reply:
    calls = gathered.calls
    return Reply(
        message=Message(role=Role.ASSISTANT, text="".join(gathered.text), calls=calls),
        finish=_FINISH.get(finish or "", Finish.CALLS if calls else Finish.STOP),
        usage=_usage(usage, sum(map(len, gathered.text))),
        model=model or "",
        tokens=tokens.record(),
        reasoning="".join(gathered.reasoning),
    )


def _usage(usage: dict[str, Any] | None, chars: int) -> Usage:
    if not usage:
        return Usage(output_tokens=chars // 4, counted=False)
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return Usage(
        input_tokens=usage.get("prompt_tokens") or 0,
        output_tokens=usage.get("completion_tokens") or 0,
        cache_read_tokens=cached,
    )


def _wire(message: Message) -> list[dict[str, Any]]:
    """The message as the interface wants it; images of a tool's answer follow as a user's, which all servers take."""
    if message.role is Role.ASSISTANT:
        wire: dict[str, Any] = {"role": "assistant", "content": message.text or None}
        if message.calls:
            wire["tool_calls"] = [
                # many servers parse what they are handed back: a call that was no JSON must not end the conversation
                {
                    "id": c.id,
                    "type": "function",
                    "function": {"name": c.name or "unknown", "arguments": json.dumps(c.as_object())},
                }
                for c in message.calls
            ]
        elif not message.text:
            wire["content"] = ""
        return [wire]
    if message.role is Role.TOOL:
        answer = {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
        return [answer, *([{"role": "user", "content": _parts("", message)}] if message.images else [])]
    content: Any = _parts(message.text, message) if message.images else message.text
    return [{"role": message.role.value, "content": content}]


def _parts(text: str, message: Message) -> list[dict[str, Any]]:
    images = [
        {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{image.data}"}}
        for image in message.images
    ]
    return [*([{"type": "text", "text": text}] if text else []), *images]
