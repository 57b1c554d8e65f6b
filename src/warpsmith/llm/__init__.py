"""Language models by name: `connect("openai:NAME")` and its like."""

from collections.abc import Callable
from pathlib import Path

from warpsmith.errors import UsageError
from warpsmith.llm.settings import LLMSettings, Price
from warpsmith.types.llm import LLM


def _openai(name: str, settings: LLMSettings) -> LLM:
    from warpsmith.llm.openai_compatible import OpenAICompatible

    return OpenAICompatible(name, settings)


def _anthropic(name: str, settings: LLMSettings) -> LLM:
    from warpsmith.llm.anthropic_messages import AnthropicMessages

    return AnthropicMessages(name, settings)


def _local(name: str, settings: LLMSettings) -> LLM:
    from warpsmith.llm.local import LocalModel

    return LocalModel(name, settings)


def _scripted(name: str, settings: LLMSettings) -> LLM:
    from warpsmith.llm.scripted import ScriptedLLM, load_script

    script = load_script(Path(name))
    return ScriptedLLM(script, name=f"scripted:{Path(name).name}", context_tokens=settings.context_tokens)


BACKENDS: dict[str, Callable[[str, LLMSettings], LLM]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "hf": _local,
    "scripted": _scripted,
}
"""One line a backend."""


def connect(model: str, settings: LLMSettings | None = None) -> LLM:
    """The model that `BACKEND:NAME` names; nothing is sent yet.

    Raises UsageError for an unknown backend or a missing key, MissingExtraError where its package is missing.
    """
    backend, colon, name = model.partition(":")
    if backend not in BACKENDS or not colon or not name:
        known = ", ".join(f"{known}:NAME" for known in BACKENDS)
        raise UsageError(f"unknown model {model!r}", hint=f"give one of {known}")
    return BACKENDS[backend](name, settings or LLMSettings())


__all__ = ["BACKENDS", "LLMSettings", "Price", "connect"]
