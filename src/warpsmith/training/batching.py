"""Generation for many conversations at a time, by transformers' continuous batching.

Requests share batches, each with a temperature of its own, and join and leave as they come and end; blocks of equal
prefixes are shared, so that a turn pays for what is new.
"""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from warpsmith.errors import ModelUnavailableError
from warpsmith.training.token_llm import Generated

BLOCK_TOKENS = 256
_BATCH_TOKENS = 512
"""On the CPU; on a GPU the engine looks at its memory."""
_MOST_SEQUENCES = 32


class Batches:
    """Answers requests in one event loop, from the first on. The model must have `paged` attention.

    `longest`: tokens of a prompt with its reply; `answer_tokens` of a reply for which nothing else is asked;
    `memory`: share of the GPU's memory.
    """

    def __init__(
        self,
        model: Any,
        stop_ids: Sequence[int],
        pad: int | None,
        *,
        longest: int,
        answer_tokens: int,
        memory: float,
        share_prefixes: bool = True,
    ):
        self._model, self._stop_ids, self._pad = model, list(stop_ids), pad
        self._longest, self._answer_tokens, self._memory = longest, answer_tokens, memory
        self._share_prefixes = share_prefixes
        self._manager: Any = None
        self._requests = 0

    async def draw(self, prompt: Sequence[int], most: int, temperature: float) -> Generated:
        """Tokens behind the prompt with their log-probabilities. Raises RuntimeError where the engine fails."""
        if self._manager is None:
            self._start()
        self._requests += 1
        request = f"{self._requests}"
        done = asyncio.get_running_loop().create_future()

        def take(result: Any) -> None:
            if result.is_finished() and not done.done():
                done.set_result(result)

        self._manager.register_result_handler(request, take)
        self._manager.add_request(
            list(prompt),
            request_id=request,
            max_new_tokens=most,
            eos_token_id=self._stop_ids,
            # 0 would divide by nothing; this is as good as greedy
            temperature=max(temperature, 1e-3),
        )
        result = await done
        if result.error:
            raise RuntimeError(result.error)
        return Generated(
            ids=tuple(result.generated_tokens), logprobs=tuple(float(value) for value in result.logprobs)
        )

    def stop(self) -> None:
        """Drops every block; the next request starts anew."""
        if self._manager is not None:
            manager, self._manager = self._manager, None
            manager.stop(block=True)

    def _start(self) -> None:
        from transformers import GenerationConfig
        from transformers.generation import ContinuousBatchingConfig

        room: dict[str, int] = {}
        if self._model.device.type == "cpu":
            blocks = _MOST_SEQUENCES * (-(-self._longest // BLOCK_TOKENS) + 1)
            room = {"num_blocks": blocks, "max_batch_tokens": _BATCH_TOKENS}
        generation = GenerationConfig(
            max_new_tokens=self._answer_tokens,
            do_sample=True,
            # every request names its own; were this 1, the engine would leave the whole step out
            temperature=0.5,
            top_k=0,
            top_p=1.0,
            eos_token_id=self._stop_ids,
            pad_token_id=self._pad,
        )
        batching = ContinuousBatchingConfig(
            block_size=BLOCK_TOKENS,
            max_memory_percent=self._memory,
            return_logprobs=True,
            allow_block_sharing=self._share_prefixes,
            per_request_processors=True,
            **room,
        )
        self._manager = self._model.init_continuous_batching(
            generation_config=generation, continuous_batching_config=batching
        )
        self._manager.start()


class Blocking:
    """`Batches` for threads that wait for their replies."""

    def __init__(self, batches: Batches, longest_wait_s: float = 3600.0):
        self._batches, self._longest_wait_s = batches, longest_wait_s
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def generate(self, prompt: Sequence[int], most: int, temperature: float) -> Generated:
        """Tokens behind the prompt. Raises ModelUnavailableError where none come."""
        asked = asyncio.run_coroutine_threadsafe(self._batches.draw(prompt, most, temperature), self._loop)
        try:
            return asked.result(self._longest_wait_s)
        except (TimeoutError, RuntimeError) as error:
            raise ModelUnavailableError(f"the engine gave no reply: {error}") from error

    def close(self) -> None:
        """Ends the engine."""
        self._batches.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
