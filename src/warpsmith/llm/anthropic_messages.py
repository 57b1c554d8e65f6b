"""Anthropic's messages interface, with marks for its prompt cache. The key is read from ANTHROPIC_API_KEY."""

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from warpsmith.errors import MissingExtraError, ModelReplyError, UsageError
from warpsmith.llm.failures import failures
from warpsmith.llm.retry import TryAgain, answered
from warpsmith.llm.settings import LLMSettings
from warpsmith.llm.stream import Gathered
from warpsmith.types.llm import Finish, Image, Message, Question, Reply, Role, Usage

_KEY = "ANTHROPIC_API_KEY"
_CACHE = {"type": "ephemeral"}
_FINISH = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "tool_use": Finish.CALLS,
    "max_tokens": Finish.LENGTH,
    "refusal": Finish.FILTERED,
}


class AnthropicMessages:
    """Implements `LLM`, always streaming. Raises UsageError without a key, MissingExtraError without `anthropic`."""

    native_tools = True

    def __init__(self, model: str, settings: LLMSettings, sleep: Callable[[float], None] = time.sleep):
        try:
            import anthropic
        except ImportError as error:
            raise MissingExtraError(
                "anthropic is not installed", hint="pip install 'warpsmith[llm]'"
            ) from error
        key = os.environ.get(_KEY)
        if not key:
            raise UsageError(f"no key for {model}", hint=f"set {_KEY}")
        self.name = f"anthropic:{model}"
        self.context_tokens = settings.context_tokens
        self._model, self._settings, self._sleep = model, settings, sleep
        self._sdk = anthropic
        self._client = anthropic.Anthropic(
            api_key=key, base_url=settings.endpoint, max_retries=0, timeout=settings.silence_s
        )

    def complete(self, question: Question, told: Callable[[str], None] | None = None) -> Reply:
        """Asks, and asks again as `settings` say. Token ids are not told by this service."""
        request = self._request(question)
        return answered(lambda: self._streamed(request, question, told), self._settings, self._sleep)

    def _request(self, question: Question) -> dict[str, Any]:
        system = "\n\n".join(m.text for m in question.messages if m.role is Role.SYSTEM)
        request: dict[str, Any] = {
            "model": self._model,
            "max_tokens": question.max_output_tokens,
            "messages": _wire([m for m in question.messages if m.role is not Role.SYSTEM]),
        }
        if system:
            # tools and system message are the same in every turn: one mark behind them, one behind the last message
            request["system"] = [{"type": "text", "text": system, "cache_control": _CACHE}]
        if question.tools:
            request["tools"] = [
                {"name": t.name, "description": t.description, "input_schema": t.input_schema}
                for t in question.tools
            ]
        if question.temperature is not None:
            request["temperature"] = question.temperature
        return request

    def _streamed(
        self, request: dict[str, Any], question: Question, told: Callable[[str], None] | None
    ) -> Reply:
        gathered = Gathered(self._settings, question.max_output_tokens, told)
        finish: str | None = None
        usage: dict[str, Any] = {}
        model = self._model
        with failures(self._sdk, _KEY):
            with self._client.messages.create(**request, stream=True) as stream:
                for raw in stream:
                    event = raw.model_dump(warnings=False)
                    match event["type"]:
                        case "message_start":
                            model = event["message"].get("model") or model
                            usage |= _given(event["message"].get("usage"))
                        case "content_block_start":
                            _start(event["index"], event["content_block"], gathered)
                        case "content_block_delta":
                            _delta(event["index"], event["delta"], gathered)
                        case "message_delta":
                            finish = event["delta"].get("stop_reason") or finish
                            usage |= _given(event.get("usage"))
                    if gathered.too_much:
                        finish = "max_tokens"
                        break
            if finish is None:
                raise TryAgain(ModelReplyError("the server's answer breaks off"))
            calls = gathered.calls
            return Reply(
                message=Message(role=Role.ASSISTANT, text="".join(gathered.text), calls=calls),
                finish=_FINISH.get(finish, Finish.CALLS if calls else Finish.STOP),
                usage=_usage(usage),
                model=model,
                reasoning="".join(gathered.reasoning),
            )


def _given(usage: dict[str, Any] | None) -> dict[str, Any]:
    """Counts that are told; the end's replace the beginning's."""
    return {name: count for name, count in (usage or {}).items() if count is not None}


def _usage(usage: dict[str, Any]) -> Usage:
    read, written = usage.get("cache_read_input_tokens", 0), usage.get("cache_creation_input_tokens", 0)
    return Usage(
        input_tokens=usage.get("input_tokens", 0) + read + written,
        output_tokens=usage.get("output_tokens", 0),
        cache_read_tokens=read,
        cache_write_tokens=written,
        counted=bool(usage),
    )


def _start(index: int, block: dict[str, Any], gathered: Gathered) -> None:
    if block["type"] == "tool_use":
        gathered.add_call(index, block["id"], block["name"])
    elif block["type"] == "text":
        gathered.add_text(block.get("text") or "")


def _delta(index: int, delta: dict[str, Any], gathered: Gathered) -> None:
    match delta["type"]:
        case "text_delta":
            gathered.add_text(delta["text"])
        case "input_json_delta":
            gathered.add_call(index, arguments=delta["partial_json"])
        case "thinking_delta":
            gathered.add_reasoning(delta["thinking"])


def _wire(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Roles in turn: answers to calls and what follows them are one user message; a cache mark on the last block."""
    wire: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role is Role.ASSISTANT else "user"
        blocks = _blocks(message)
        if wire and wire[-1]["role"] == role:
            wire[-1]["content"] += blocks
        elif blocks:
            wire.append({"role": role, "content": blocks})
    if wire and wire[-1]["content"]:
        wire[-1]["content"][-1] = wire[-1]["content"][-1] | {"cache_control": _CACHE}
    return wire


def _blocks(message: Message) -> list[dict[str, Any]]:
    # empty text blocks are refused
    text = [{"type": "text", "text": message.text}] if message.text.strip() else []
    if message.role is Role.ASSISTANT:
        calls = [
            {"type": "tool_use", "id": c.id, "name": c.name or "unknown", "input": c.as_object()}
            for c in message.calls
        ]
        return [*text, *calls] or [{"type": "text", "text": "(nothing)"}]
    content = [*text, *map(_image, message.images)]
    if message.role is Role.TOOL:
        answer = {"type": "tool_result", "tool_use_id": message.call_id, "is_error": message.is_error}
        return [answer | ({"content": content} if content else {})]
    return content


def _image(image: Image) -> dict[str, Any]:
    source = {"type": "base64", "media_type": image.media_type, "data": image.data}
    return {"type": "image", "source": source}
