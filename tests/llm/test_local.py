"""The backend on tiny models of this machine: what it samples, keeps, tells and refuses."""

from pathlib import Path
from typing import Any

import pytest
from tests.llm import tiny

from warpsmith.errors import RequestRefusedError, UsageError
from warpsmith.llm import LLMSettings, Price, connect
from warpsmith.types.llm import Finish, Image, Message, Question, Role, ToolCall, ToolSpec

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from warpsmith.llm.local import LocalModel  # noqa: E402  behind what it needs

CPU = LLMSettings(device="cpu")
READ = ToolSpec(name="Read", description="reads", input_schema={"type": "object", "properties": {}})


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.random_model(tmp_path_factory.mktemp("noise"))


def ask(*texts: str, **more: object) -> Question:
    """A conversation that begins with the user and takes turns."""
    roles = (Role.USER, Role.ASSISTANT)
    messages = tuple(Message(role=roles[at % 2], text=text) for at, text in enumerate(texts))
    return Question.model_validate(
        {"messages": messages, "max_output_tokens": 12, "keep_tokens": True} | more
    )


def plain(model: LocalModel, prompt: tuple[int, ...], ids: tuple[int, ...]) -> Any:
    """Log-probabilities of every token at each place of `ids`, by one forward pass."""
    with torch.inference_mode():
        scores = model._model(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1]
    return scores.float().log_softmax(-1)


def test_greedy_tokens_their_probabilities_and_counts(noise: Path) -> None:
    model = LocalModel(str(noise), CPU)
    heard: list[str] = []
    reply = model.complete(ask("hello", temperature=0.0), heard.append)
    tokens = reply.tokens
    assert tokens is not None and len(tokens.ids) == len(tokens.logprobs) == reply.usage.output_tokens == 12
    assert tokens.prompt_ids == tuple(model._tokenizer.encode("<|user|>hello<|end|><|assistant|>"))
    right = plain(model, tokens.prompt_ids, tokens.ids)
    assert tokens.ids == tuple(right.argmax(-1).tolist())
    assert tokens.logprobs == pytest.approx(right.max(-1).values.tolist(), abs=1e-5)
    assert reply.finish is Finish.LENGTH and reply.usage.input_tokens == len(tokens.prompt_ids)
    assert "".join(heard).strip() == reply.message.text == model._tokenizer.decode(tokens.ids).strip()


def test_a_seed_repeats_a_sample_and_leaves_torch_as_it_was(noise: Path) -> None:
    model = LocalModel(str(noise), CPU)
    before = torch.random.get_rng_state()
    said = [model.complete(ask("hi", seed=seed)).tokens for seed in (7, 7, 8)]
    assert said[0] and said[1] and said[2] and said[0].ids == said[1].ids != said[2].ids
    assert torch.equal(before, torch.random.get_rng_state())
    # sampled, yet told with the model's own probabilities
    right = plain(model, said[2].prompt_ids, said[2].ids)
    assert said[2].ids != tuple(right.argmax(-1).tolist())
    rows = zip(right, said[2].ids, strict=True)
    assert said[2].logprobs == pytest.approx([float(row[token]) for row, token in rows], abs=1e-4)


def test_kept_tokens_come_from_the_plain_distribution(tmp_path: Path) -> None:
    """The model's own settings would only ever take the likeliest token."""
    folder = str(tiny.random_model(tmp_path, do_sample=True, top_k=1))
    model = LocalModel(folder, CPU)
    own = [model.complete(ask("x", keep_tokens=False, seed=seed)).message.text for seed in (1, 2)]
    kept = [model.complete(ask("x", seed=seed)).message.text for seed in (1, 2)]
    assert own[0] == own[1] and kept[0] != kept[1]
    assert model.complete(ask("x", keep_tokens=False)).tokens is None


def test_what_two_questions_share_is_computed_once(noise: Path) -> None:
    model, fresh = LocalModel(str(noise), CPU), LocalModel(str(noise), CPU)
    first = model.complete(ask("one", temperature=0.0))
    assert first.tokens is not None
    longer = ask("one", first.message.text, "two", temperature=0.0)
    other = ask("once more", temperature=0.0)
    for question, least in ((longer, 5), (other, 3), (other, 10)):
        again, anew = model.complete(question), fresh.complete(question)
        fresh = LocalModel(str(noise), CPU)
        assert again.tokens and anew.tokens and again.tokens.ids == anew.tokens.ids
        assert again.tokens.logprobs == pytest.approx(anew.tokens.logprobs, abs=1e-4)
        assert least <= again.usage.cache_read_tokens < again.usage.input_tokens
        assert anew.usage.cache_read_tokens == 0


def test_the_context_bounds_the_answer_and_refuses_the_question(noise: Path) -> None:
    model = LocalModel(str(noise), LLMSettings(device="cpu", context_tokens=1024))
    assert model.context_tokens == 512
    reply = model.complete(ask("x" * 500, temperature=0.0, max_output_tokens=100))
    assert reply.finish is Finish.LENGTH and reply.usage.tokens == 512
    with pytest.raises(RequestRefusedError, match="do not fit the model's context of 512"):
        model.complete(ask("x" * 600))


def test_time_is_bounded_and_costs_are_told(noise: Path) -> None:
    price = Price(input_usd=1.0, output_usd=2.0)
    settings = LLMSettings(device="cpu", request_s=1e-6, price=price)
    reply = LocalModel(str(noise), settings).complete(ask("x"))
    assert reply.finish is Finish.LENGTH and reply.usage.output_tokens == 1
    assert reply.usage.cost_usd == pytest.approx((reply.usage.input_tokens + 2) / 1e6)


def test_thoughts_stand_apart_and_the_end_is_told(tmp_path: Path) -> None:
    model = LocalModel(str(tiny.chain_model(tmp_path, "<think>", "so be it", "</think>", " it is done")), CPU)
    reply = model.complete(ask("?", max_output_tokens=100))
    assert (reply.message.text, reply.reasoning, reply.finish) == ("it is done", "so be it", Finish.STOP)
    assert reply.usage.output_tokens == 5 and reply.tokens and len(reply.tokens.ids) == 5


RESPONSE = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|assistant|>",
    "fields": {
        "tool_calls": {
            "open": "[CALL]", "close": "[/CALL]", "repeats": True, "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"content": "text"},
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("call", "text", "calls"),
    [
        ('[CALL]{"name": "Read", "arguments": {"a": 1}}[/CALL]', "now", 1),
        ('[CALL]{"name": "Read", "argu[/CALL]', 'now [CALL]{"name": "Read", "argu[/CALL]', 0),
    ],
)
def test_calls_in_the_form_that_the_tokenizer_tells(tmp_path: Path, call: str, text: str, calls: int) -> None:
    model = LocalModel(str(tiny.chain_model(tmp_path, "now ", call, response=RESPONSE)), CPU)
    reply = model.complete(ask("?", tools=(READ,), max_output_tokens=9))
    assert reply.message.text == text and len(reply.message.calls) == calls
    assert reply.finish is (Finish.CALLS if calls else Finish.STOP)
    if calls:
        assert (reply.message.calls[0].name, reply.message.calls[0].arguments) == ("Read", '{"a": 1}')


def test_tools_and_a_conversation_with_calls_reach_the_template(noise: Path) -> None:
    model = LocalModel(str(noise), CPU)
    assert model.native_tools
    call = ToolCall(id="c", name="Read", arguments="{cut")
    messages = (
        Message(role=Role.SYSTEM, text="s"),
        Message(role=Role.ASSISTANT, text="look", calls=(call,)),
        Message(role=Role.TOOL, text="no", call_id="c", images=(Image(media_type="image/png", data="AA=="),)),
    )
    reply = model.complete(Question(messages=messages, tools=(READ,), max_output_tokens=1, keep_tokens=True))
    assert reply.tokens is not None
    said = model._tokenizer.decode(reply.tokens.prompt_ids)
    assert said.startswith('<|tools|>[{"type": "function", "function": {"name": "Read"')
    assert (
        '<|end|><|system|>s<|end|><|assistant|>look<tool_call>{"name": "Read", "arguments": {"unreadable": "{cut"}}'
    ) in said
    assert "<|tool|>no\n[an image, which this model cannot see]<|end|>" in said
    assert '"parameters": {"type": "object", "properties": {}}' in said and said.endswith("<|assistant|>")


def test_a_template_without_tools_and_one_that_refuses(tmp_path: Path) -> None:
    deaf = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}<|assistant|>"
    model = LocalModel(str(tiny.random_model(tmp_path / "deaf", template=deaf)), CPU)
    assert not model.native_tools
    strict = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}x"
    model = LocalModel(str(tiny.random_model(tmp_path / "strict", template=strict)), CPU)
    with pytest.raises(RequestRefusedError, match="refuses the conversation: no system"):
        model.complete(Question(messages=(Message(role=Role.SYSTEM, text="s"),)))


def test_what_cannot_be_loaded_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for wrong in (tmp_path / "nothing", tmp_path / "empty"):
        with pytest.raises(UsageError) as raised:
            connect(f"hf:{wrong}")
        assert "\n" not in str(raised.value) and raised.value.hint
    mute = tiny.random_model(tmp_path / "mute", template=None)
    with pytest.raises(UsageError, match="has no chat template"):
        connect(f"hf:{mute}", CPU)
