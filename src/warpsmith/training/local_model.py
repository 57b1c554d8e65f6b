"""A model's folder in Hugging Face's format, asked in token ids in this process: for collecting and evaluating."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from warpsmith.errors import UsageError
from warpsmith.training.adapters import load_whole, tokenizer_folder
from warpsmith.training.batching import Batches, Blocking
from warpsmith.training.chat import ChatEncoder
from warpsmith.training.recipes import Recipe
from warpsmith.training.token_llm import Generated


class PlayedModel(Protocol):
    """A model that plays."""

    encoder: ChatEncoder

    def generate(self, prompt: Sequence[int], most: int, temperature: float) -> Generated: ...

    def close(self) -> None: ...


def open_model(folder: str, made: Recipe) -> PlayedModel:
    """The model of a folder, for as many conversations at a time as the recipe plays. Raises UsageError."""
    if made.at_once == 1:
        return LocalModel(folder, made.device, made.dtype)
    return BatchedModel(folder, made)


class LocalModel:
    """One conversation at a time; what a prompt shares with the last one is not computed again.

    Raises UsageError where the folder holds no model.
    """

    def __init__(self, folder: str, device: str, dtype: str, attention: str = "sdpa", seed: int = 0):
        import torch

        self.encoder, model = _load(folder, dtype, attention)
        self._model = model.to(device).eval()
        self._device = device
        self._chance = torch.Generator(device=device).manual_seed(seed)
        self._cache: Any = None
        self._cached: list[int] = []
        self.computed_tokens = 0
        """Prompts' and replies', without what was cached."""

    def close(self) -> None:
        """Nothing is left behind."""

    def generate(self, prompt: Sequence[int], most: int, temperature: float) -> Generated:
        """Draws until a stop id or `most` tokens; at temperature 0 the likeliest ones."""
        import torch

        ids: list[int] = []
        logprobs: list[float] = []
        with torch.inference_mode():
            logits = self._read(list(prompt))
            while True:
                scaled = torch.log_softmax(logits / temperature if temperature > 0 else logits, -1)
                if temperature > 0:
                    drawn = int(torch.multinomial(scaled.exp(), 1, generator=self._chance))
                else:
                    drawn = int(scaled.argmax())
                ids.append(drawn)
                logprobs.append(float(scaled[drawn]))
                if drawn in self.encoder.stop_ids or len(ids) >= most:
                    break
                logits = self._forward([drawn])
        return Generated(ids=tuple(ids), logprobs=tuple(logprobs))

    def _read(self, prompt: list[int]) -> Any:
        """Logits behind the prompt, (vocabulary,); only what is new of it is computed."""
        from transformers import DynamicCache

        shared = 0
        while shared < min(len(prompt) - 1, len(self._cached)) and prompt[shared] == self._cached[shared]:
            shared += 1
        if self._cache is None or shared == 0:
            self._cache, shared = DynamicCache(config=self._model.config), 0
        elif shared < len(self._cached):
            # below zero it means the same in every version: so many from the end
            self._cache.crop(shared - len(self._cached))
        self._cached = prompt[:shared]
        return self._forward(prompt[shared:])

    def _forward(self, ids: list[int]) -> Any:
        import torch

        output = self._model(
            torch.tensor([ids], device=self._device), past_key_values=self._cache, use_cache=True
        )
        self._cached = [*self._cached, *ids]
        self.computed_tokens += len(ids)
        return output.logits[0, -1].float()


class BatchedModel:
    """Any number of conversations at a time, by continuous batching. Raises UsageError where there is no model."""

    def __init__(self, folder: str, made: Recipe):
        self.encoder, model = _load(folder, made.dtype, "paged|sdpa")
        batches = Batches(
            model.to(made.device).eval(),
            sorted(self.encoder.stop_ids),
            self.encoder.pad_id,
            longest=made.context_tokens,
            answer_tokens=made.answer_tokens,
            memory=made.rollout_memory,
        )
        self._engine = Blocking(batches)
        self.generate = self._engine.generate

    def close(self) -> None:
        """Ends the engine."""
        self._engine.close()


def _load(folder: str, dtype: str, attention: str) -> tuple[ChatEncoder, Any]:
    from transformers import AutoTokenizer

    model = load_whole(Path(folder), dtype, attention)
    try:
        tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder(Path(folder)), local_files_only=True)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{folder} holds no tokenizer", hint="give the folder of a model in Hugging Face's format"
        ) from error
    further = model.generation_config.eos_token_id
    stop_ids = further if isinstance(further, list) else [further]
    return ChatEncoder(tokenizer, [token for token in stop_ids if token is not None]), model
