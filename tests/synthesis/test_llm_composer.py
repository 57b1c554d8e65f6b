"""A language model's answers become tasks only where they are what was asked for."""

import pytest
from tests.synthesis.small import small_catalogue

from warpsmith.llm.scripted import ScriptedLLM, ScriptedReply
from warpsmith.synthesis.composing import ComposeLog, compose_set
from warpsmith.synthesis.llm_composer import LLMComposer, code_in, prompt
from warpsmith.synthesis.mixes import PAPER
from warpsmith.synthesis.records import Origin
from warpsmith.synthesis.sizing import CouldNotComposeError

MIX = PAPER.model_copy(update={"operators": {2: 1.0}})


def composer(*replies: str) -> LLMComposer:
    llm = ScriptedLLM([ScriptedReply(text=text) for text in replies], name="scripted")
    return LLMComposer(llm, small_catalogue(), MIX, seed=5)


def answer(ops: tuple[str, ...]) -> str:
    modules = [".nn." in op and "functional" not in op for op in ops]
    calls = [f"self.m{n}" if made else op for n, (op, made) in enumerate(zip(ops, modules, strict=True))]
    body = "\n".join(f"        x = {call}(x)" for call in calls)
    made = "\n".join(f"        {call} = {op}(8)" for call, op in zip(calls, ops, strict=True) if call != op)
    return f"""Here it is.
```python
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
{made}
    def forward(self, x):
{body}
        return x

def get_inputs():
    return [torch.randn(8, 8)]

def get_init_inputs():
    return []
```"""


def asked_ops() -> tuple[str, ...]:
    """The operators that number 0 asks for: the same each time."""
    asking = composer("nothing")
    with pytest.raises(CouldNotComposeError, match="no fenced Python block"):
        asking.compose(0)
    text = asking._llm.asked[0].messages[0].text
    return tuple(line.split("`")[1] for line in text.splitlines() if line[:3] in ("1. ", "2. "))


def test_an_answer_of_the_operators_asked_for():
    ops = asked_ops()
    task = composer(answer(ops)).compose(0)
    assert task.ops == ops and task.data_source == "torch#2"
    assert task.provenance.origin is Origin.LLM and task.provenance.model == "scripted"
    assert task.code.startswith("import torch\n") and task.cost is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```python\nclass Model: pass\n```", "does not define"),
        ("```python\nclass Model(:\n```", "not valid Python"),
        (answer(("torch.cos", "torch.sin")), "its code does not run"),
    ],
)
def test_other_answers_are_none(text, problem):
    with pytest.raises(CouldNotComposeError, match=problem):
        composer(text).compose(0)


def test_a_set_asks_until_it_is_told_to_stop(tmp_path):
    ops = asked_ops()
    with ComposeLog(tmp_path / "llm.jsonl") as log:
        counts = compose_set(composer("no", answer(ops)), log, 5, origin=Origin.LLM, last=3)
    assert counts.tried == 3 and counts.not_found == 3 - counts.composed


def test_the_prompt_names_operators_and_bounds():
    text = prompt(("torch.nn.GELU", "torch.sum"), PAPER)
    assert "1. `torch.nn.GELU`\n2. `torch.sum`" in text
    assert "between 1.6 and 45 ms on a H200" in text and "at most 24 GiB" in text


def test_the_longest_block_counts():
    assert code_in("```py\na = 1\n```\n```python\na = 1\nb = 2\n```") == "a = 1\nb = 2\n"
