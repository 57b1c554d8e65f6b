"""The rollout server by itself: what it says of its tokens is what the model says, before and after new weights."""

import asyncio
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("verl", reason="needs the extra train")

from tests.training.test_local_model import logprobs  # noqa: E402
from verl.workers.config import HFModelConfig, RolloutConfig  # noqa: E402
from verl.workers.rollout.replica import TokenOutput  # noqa: E402

from warpsmith.training.engine.rollout import TransformersServer  # noqa: E402
from warpsmith.training.tiny import make_tiny_model  # noqa: E402

TEXTS = ["a kernel of warps and blocks"] * 9


def test_batches_temperatures_lengths_and_new_weights(tmp_path: Path) -> None:
    first = str(make_tiny_model(tmp_path / "first", TEXTS))
    second = str(make_tiny_model(tmp_path / "second", TEXTS, seed=7))
    config = RolloutConfig(
        name="transformers", dtype="float32", prompt_length=64, response_length=64, max_model_len=128
    )
    server = TransformersServer(config, HFModelConfig(path=first), "cpu", answer_tokens=16)
    prefix = list(range(40, 60))
    asked = [([*prefix, 60], 1.0, 9), ([*prefix, 61], 0.5, 5), ([7, 8, 9], 1.3, 12), ([*prefix, 60], 1.0, 7)]

    async def ask_all() -> list[TokenOutput]:
        return await asyncio.gather(
            *(
                server.generate(prompt, {"temperature": temperature, "max_tokens": most}, "r")
                for prompt, temperature, most in asked
            )
        )

    def check(folder: str, outputs: list[TokenOutput], version: int | None) -> None:
        for (prompt, temperature, most), output in zip(asked, outputs, strict=True):
            assert 1 <= len(output.token_ids) <= most
            whole = logprobs(folder, prompt, tuple(output.token_ids), temperature)
            assert output.log_probs == pytest.approx(whole, abs=1e-4)
            assert output.extra_fields["global_steps"] == version

    async def play() -> None:
        check(first, await ask_all(), None)
        from transformers import AutoModelForCausalLM

        trained = AutoModelForCausalLM.from_pretrained(second, dtype=torch.float32)
        named = list(trained.state_dict().items())
        await server.load_weights(named[:3])
        await server.load_weights(named[3:])
        await server.loaded(5)
        check(second, await ask_all(), 5)
        await server.sleep()
        await server.wake_up()
        check(second, await ask_all(), 5)
        await server.clear_kv_cache()

    asyncio.run(play())
