"""Models that run in this process, by transformers: a folder in its format, or a name on the Hugging Face hub."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from warpsmith.errors import ContextFullError, MissingExtraError, RequestRefusedError, UsageError
from warpsmith.llm.settings import LLMSettings
from warpsmith.types.llm import Finish, Message, Question, Reply, Role, Tokens, ToolCall, ToolSpec, Usage

if TYPE_CHECKING:
    import torch

_HINT = "give a folder in transformers' format, or a name on the hub"
_PURE = {"top_p": 1.0, "top_k": 0, "min_p": None, "typical_p": 1.0, "repetition_penalty": 1.0}
"""Nothing between the model's distribution and the sample: what training wants of kept tokens."""
_THOUGHT = "</think>"


class LocalModel:
    """Implements `LLM`, one question at a time, on `settings.device`.

    What two questions begin with in common is computed once, and told as read from a cache. Samples follow the
    model's own generation settings but for `temperature`; where tokens are kept, from its plain distribution.
    Raises UsageError where the model cannot be loaded or has no chat template, MissingExtraError without
    `transformers`.
    """

    def __init__(self, model: str, settings: LLMSettings):
        try:
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer
        except ImportError as error:
            raise MissingExtraError(
                "transformers and torch are not installed", hint="pip install 'warpsmith[hf]'"
            ) from error
        self.name = f"hf:{model}"
        self._settings = settings
        device = settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(model)
            self._model = AutoModelForCausalLM.from_pretrained(model, dtype="auto").to(device).eval()
        except (OSError, ValueError, RuntimeError) as error:
            why = str(error).strip().partition("\n")[0]
            raise UsageError(f"cannot load the model {model}: {why}", hint=_HINT) from error
        if not self._tokenizer.chat_template:
            raise UsageError(f"the tokenizer of {model} has no chat template", hint="use a chat model")
        longest = getattr(self._model.config.get_text_config(), "max_position_embeddings", None)
        self.context_tokens = min(settings.context_tokens, longest or settings.context_tokens)
        self.native_tools = settings.native_tools and self._knows_tools()
        self._prefix = _Prefix()

    def complete(self, question: Question, told: Callable[[str], None] | None = None) -> Reply:
        """One generation. Raises ContextFullError where the conversation does not fit context or memory."""
        begun = time.monotonic()
        tools = [_tool(spec) for spec in question.tools]
        prompt = self._prompt([_wire(message) for message in question.messages], tools)
        room = self.context_tokens - len(prompt)
        if room < 1:
            raise ContextFullError(
                f"{len(prompt)} tokens do not fit the model's context of {self.context_tokens}",
                hint="use a model with a longer context",
            )
        said, reused = self._generate(prompt, min(room, question.max_output_tokens), question, told)
        text, reasoning, calls = self._read(prompt, said.ids[: len(said.ids) - said.ended], tools)
        usage = Usage(input_tokens=len(prompt), output_tokens=len(said.ids), cache_read_tokens=reused)
        tokens = Tokens(prompt_ids=tuple(prompt), ids=tuple(said.ids), logprobs=tuple(said.logprobs))
        finish = Finish.CALLS if calls else Finish.STOP
        return Reply(
            message=Message(role=Role.ASSISTANT, text=text, calls=calls),
            finish=finish if said.ended else Finish.LENGTH,
            usage=self._settings.price.of(usage) if self._settings.price else usage,
            model=self.name,
            tokens=tokens if question.keep_tokens else None,
            reasoning=reasoning,
            seconds=round(time.monotonic() - begun, 3),
        )

    def _generate(
        self, prompt: list[int], limit: int, question: Question, told: Callable[[str], None] | None
    ) -> tuple["_Said", int]:
        """What is sampled behind `prompt`, at most `limit` tokens, and how many of the prompt's were known."""
        import torch

        config = deepcopy(self._model.generation_config)
        config.update(
            max_new_tokens=limit, max_length=None, return_dict_in_generate=True, **_sampling(question)
        )
        ends = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
        said = _Said(frozenset(ends), time.monotonic() + self._settings.request_s)
        ids = torch.tensor([prompt], device=self._model.device)
        cache, reused = self._prefix.of(prompt)
        try:
            with _seeded(question.seed, self._model.device), torch.inference_mode():
                done = self._model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    generation_config=config,
                    logits_processor=[said.score],
                    stopping_criteria=[said.take],
                    streamer=_streamer(self._tokenizer, told) if told else None,
                    **{_cache_word(): cache},
                )
        except torch.OutOfMemoryError as error:
            raise ContextFullError(
                f"{len(prompt)} tokens do not fit the memory of {self._model.device}",
                hint="use a smaller model or a smaller context",
            ) from error
        # the last token was sampled, and not yet read
        self._prefix = _Prefix([*prompt, *said.ids[:-1]], done[_cache_word()])
        return said, reused

    def _prompt(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> list[int]:
        import jinja2

        try:
            asked = self._tokenizer.apply_chat_template(
                messages, tools=tools or None, add_generation_prompt=True, return_dict=True
            )
        except (jinja2.TemplateError, TypeError, ValueError) as error:
            why = str(error).strip().partition("\n")[0]
            raise RequestRefusedError(
                f"the model's chat template refuses the conversation: {why}", hint="try --text-tools"
            ) from error
        return list(asked["input_ids"])

    def _knows_tools(self) -> bool:
        """Whether the chat template tells the model of tools."""
        asked = [{"role": "user", "content": "?"}]
        tool = _tool(ToolSpec(name="T", description="d", input_schema={"type": "object", "properties": {}}))
        return self._prompt(asked, [tool]) != self._prompt(asked, [])

    def _read(
        self, prompt: list[int], ids: Sequence[int], tools: list[dict[str, Any]]
    ) -> tuple[str, str, tuple[ToolCall, ...]]:
        """Text, thoughts and calls, as far as the tokenizer says how its model writes them; else all is text."""
        text = self._tokenizer.decode(ids, skip_special_tokens=False)
        if getattr(self._tokenizer, "response_template", None):
            try:
                read = self._tokenizer.parse_response(
                    text, prefix=self._tokenizer.decode(prompt), tools=tools
                )
                found = [call["function"] for call in read.get("tool_calls") or ()]
                calls = tuple(
                    ToolCall(
                        id=f"call_{len(prompt)}_{at}", name=f["name"], arguments=json.dumps(f["arguments"])
                    )
                    for at, f in enumerate(found)
                )
                return read.get("content") or "", read.get("reasoning_content") or "", calls
            except (ValueError, LookupError, TypeError):
                pass  # a call that cannot be read: the text tells what was meant
        thought, closed, said = text.rpartition(_THOUGHT)
        return (
            (said.strip(), thought.replace("<think>", "").strip(), ()) if closed else (text.strip(), "", ())
        )


class _Said:
    """Follows a generation: its tokens, their log-probabilities, and whether it ended by itself."""

    def __init__(self, ends: frozenset[int | None], until: float):
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.ended = False
        self._ends, self._until = ends, until
        self._next: torch.Tensor | None = None

    def score(self, ids: "torch.Tensor", scores: "torch.Tensor") -> "torch.Tensor":
        """Keeps the log-probabilities of the next token, before temperature; changes nothing."""
        self._next = scores[0].float().log_softmax(dim=-1)
        return scores

    def take(self, ids: "torch.Tensor", scores: object, **_: object) -> "torch.Tensor":
        """Notes the token just sampled; true where the generation ends."""
        token = int(ids[0, -1])
        assert self._next is not None
        self.ids.append(token)
        self.logprobs.append(float(self._next[token]))
        self.ended = token in self._ends
        return ids.new_full((1,), self.ended or time.monotonic() > self._until).bool()


class _Prefix:
    """Tokens that were computed, and the cache that holds their keys and values."""

    def __init__(self, ids: Sequence[int] = (), cache: Any = None):
        self._ids = tuple(ids)
        self._cache = cache

    def of(self, prompt: list[int]) -> tuple[Any, int]:
        """The cache cut back to what `prompt` begins with, and its length; (None, 0) where nothing can be reused.

        At least one token of the prompt is left to compute: the next one's distribution comes from it.
        """
        if self._cache is None or not getattr(self._cache, "is_croppable", False):
            return None, 0
        pairs = zip(self._ids, prompt[:-1], strict=False)
        same = next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(self._ids), len(prompt) - 1))
        if same == 0 or self._cache.get_seq_length() != len(self._ids):
            return None, 0
        self._cache.crop(same - len(self._ids))
        return self._cache, same


def _sampling(question: Question) -> dict[str, Any]:
    """Changes to the model's own generation settings."""
    changes: dict[str, Any] = dict(_PURE) if question.keep_tokens else {}
    temperature = question.temperature
    if temperature is None and question.keep_tokens:
        temperature = 1.0
    if temperature == 0:
        return changes | {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
    return changes | ({"do_sample": True, "temperature": temperature} if temperature is not None else {})


@contextmanager
def _seeded(seed: int | None, device: "torch.device") -> Iterator[None]:
    """Within, torch draws from `seed`; its own state is as before afterwards."""
    import torch

    if seed is None:
        yield
        return
    with torch.random.fork_rng([device] if device.type == "cuda" else [], device_type=device.type):
        torch.manual_seed(seed)
        yield


def _cache_word() -> str:
    """What transformers calls keys and values that were computed: newer releases warn of the older word."""
    import transformers

    release = tuple(int(part) for part in transformers.__version__.split(".")[:2])
    return "cache" if release >= (5, 24) else "past_key_values"


def _streamer(tokenizer: Any, told: Callable[[str], None]) -> Any:
    from transformers import TextStreamer

    class Told(TextStreamer):
        def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
            if text:
                told(text)

    return Told(tokenizer, skip_prompt=True, skip_special_tokens=True)


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.input_schema}
    return {"type": "function", "function": function}


def _wire(message: Message) -> dict[str, Any]:
    """The message as chat templates want it. Images are left out, which the text says."""
    text = message.text + "\n[an image, which this model cannot see]" * len(message.images)
    said: dict[str, Any] = {"role": message.role.value, "content": text}
    if message.calls:
        said["tool_calls"] = [
            {
                "id": c.id,
                "type": "function",
                "function": {"name": c.name or "unknown", "arguments": c.as_object()},
            }
            for c in message.calls
        ]
    if message.call_id is not None:
        said["tool_call_id"] = message.call_id
    return said
