"""A model in this process: what it says of its tokens is what a whole forward pass says."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from warpsmith.errors import UsageError

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("transformers", reason="needs the extra train")

from warpsmith.training.local_model import LocalModel, open_model  # noqa: E402
from warpsmith.training.recipes import recipe  # noqa: E402
from warpsmith.training.tiny import make_tiny_model  # noqa: E402
from warpsmith.types.llm import Message, Role  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_tiny_model(tmp_path_factory.mktemp("tiny"), ["a kernel of warps and blocks"] * 9))


def logprobs(folder: str, prompt: list[int], ids: tuple[int, ...], temperature: float) -> list[float]:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        logits = model(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1]
    whole = torch.log_softmax(logits / temperature, -1)
    return [float(row[token]) for row, token in zip(whole, ids, strict=True)]


def test_logprobs_at_any_temperature_and_behind_a_shared_prefix(folder: str) -> None:
    model = LocalModel(folder, "cpu", "float32", seed=3)
    first = model.encoder.start([Message(role=Role.USER, text="a kernel")])
    drawn = model.generate(first, 12, 0.7)
    assert drawn.logprobs == pytest.approx(logprobs(folder, first, drawn.ids, 0.7), abs=1e-4)
    # the next turn goes on from what was said; another conversation shares a part only
    for prompt in ([*first, *drawn.ids, 40, 41], [*first[:-2], 50], [60, 61]):
        again = model.generate(prompt, 5, 1.0)
        assert again.logprobs == pytest.approx(logprobs(folder, prompt, again.ids, 1.0), abs=1e-4)


def test_the_same_seed_says_the_same_and_no_temperature_the_likeliest(folder: str) -> None:
    prompt = [50, 51, 52]
    once, twice = (LocalModel(folder, "cpu", "float32", seed=5).generate(prompt, 9, 1.0) for _ in range(2))
    assert once == twice
    greedy = LocalModel(folder, "cpu", "float32").generate(prompt, 9, 0.0)
    assert greedy.ids == LocalModel(folder, "cpu", "float32", seed=8).generate(prompt, 9, 0.0).ids


def test_many_conversations_at_a_time(folder: str) -> None:
    pytest.importorskip("verl", reason="needs the version of transformers that the extra train pins")
    model = open_model(folder, recipe("cpu_tiny", at_once=4, prompt_tokens=64, response_tokens=64))
    prompts = [[*range(40, 60), last] for last in range(4)]
    try:
        with ThreadPoolExecutor(4) as threads:
            drawn = list(threads.map(lambda prompt: model.generate(prompt, 6, 0.8), prompts))
    finally:
        model.close()
    for prompt, found in zip(prompts, drawn, strict=True):
        assert 1 <= len(found.ids) <= 6
        assert found.logprobs == pytest.approx(logprobs(folder, prompt, found.ids, 0.8), abs=1e-4)


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no model"):
        LocalModel(str(tmp_path), "cpu", "float32")
