"""What must hold of any task: copies have the fingerprint of the task, whatever it is made of."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.synthesis.planted import COPIES, NEAR_MISSES, TASK

from warpsmith.synthesis.canonical import canonical, digest
from warpsmith.synthesis.graph import trace
from warpsmith.synthesis.similarity import bag, dice, near_pairs, similarity

UNARY = ("torch.relu({})", "{}.tanh()", "F.gelu({})", "torch.softmax({}, dim=1)", "{} * 0.3", "{}.cumsum(1)")
BINARY = ("{} + {}", "{} * {}", "torch.maximum({}, {})")
TEXTS = (TASK, *COPIES.values(), *NEAR_MISSES.values())


def _text(steps: list[tuple], *, size: int, prefix: str, seed: int | None, wrapped: bool) -> str:
    """A task of steps `(operator, operands)`; `seed`: in another order that its data allows, operands swapped."""
    order = list(range(len(steps)))
    rng = random.Random(seed)
    if seed is not None:
        waiting, order = order, []
        while waiting:
            ready = [n for n in waiting if all(o < 2 or o - 2 in order for o in steps[n][1])]
            order.append(rng.choice(ready))
            waiting.remove(order[-1])
    names = [f"{prefix}x", f"{prefix}y", *(f"{prefix}{n}" for n in range(len(steps)))]
    lines = []
    for n in order:
        operator, operands = steps[n]
        swapped = operands[::-1] if seed is not None and rng.random() < 0.5 else operands
        lines.append(f"        {names[n + 2]} = {operator.format(*(names[o] for o in swapped))}")
    kept = " + ".join(names[2:])
    name = "Inner" if wrapped else "Model"
    text = f"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class {name}(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.{prefix}layer = nn.Linear(size, size)

    def forward(self, {names[0]}, {names[1]}):
        {names[0]} = self.{prefix}layer({names[0]})
{chr(10).join(lines)}
        return {kept}


size = {size}


def get_inputs():
    return [torch.randn(4, size), torch.randn(4, size)]


def get_init_inputs():
    return [size]
"""
    if wrapped:
        text += """

class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.parts = nn.ModuleDict({"inner": Inner(size)})

    def forward(self, a, b):
        return self.parts["inner"](a.clone(), b.view(b.shape))
"""
    return text


@st.composite
def _steps(draw: st.DrawFn) -> list[tuple]:
    steps: list[tuple] = []
    for n in range(draw(st.integers(1, 5))):
        operands = st.integers(0, n + 1)
        if draw(st.booleans()):
            steps.append((draw(st.sampled_from(UNARY)), (draw(operands),)))
        else:
            steps.append((draw(st.sampled_from(BINARY)), (draw(operands), draw(operands))))
    return steps


def _fingerprint(code: str) -> str:
    return digest(canonical(trace(code), code))


@settings(max_examples=15, deadline=None)
@given(steps=_steps(), size=st.integers(2, 2000), seed=st.integers(0, 99), wrapped=st.booleans())
def test_renamed_resized_reordered_and_wrapped_copies_have_one_fingerprint(
    steps: list[tuple], size: int, seed: int, wrapped: bool
) -> None:
    task = _text(steps, size=16, prefix="a", seed=None, wrapped=False)
    copy = _text(steps, size=size, prefix="value_", seed=seed, wrapped=wrapped)
    assert _fingerprint(copy) == _fingerprint(task)


@settings(max_examples=15, deadline=None)
@given(
    steps=_steps(),
    place=st.integers(0, 4),
    other=st.sampled_from(("torch.sin({})", "{} - 0.7", "{}.amax(0)")),
)
def test_a_step_of_another_operator_has_another(steps: list[tuple], place: int, other: str) -> None:
    changed = list(steps)
    place %= len(steps)
    changed[place] = (other, steps[place][1][:1])
    texts = [_text(each, size=16, prefix="a", seed=None, wrapped=False) for each in (steps, changed)]
    assert _fingerprint(texts[0]) != _fingerprint(texts[1])


@settings(deadline=None)
@given(first=st.sampled_from(TEXTS), second=st.sampled_from(TEXTS))
def test_similarity_is_symmetric_within_bounds_and_one_on_itself(first: str, second: str) -> None:
    alike = similarity(first, second)
    assert 0 <= alike <= 1 and alike == similarity(second, first)
    assert similarity(first, first) == 1


@settings(max_examples=30, deadline=None)
@given(steps=st.lists(_steps(), min_size=2, max_size=12), above=st.sampled_from((0.5, 0.8, 0.9, 0.95)))
def test_the_prefilter_loses_no_pair(steps: list[list[tuple]], above: float) -> None:
    bags = [bag(_text(each, size=16, prefix="a", seed=None, wrapped=False)) for each in steps]
    expected = {
        (i, j): dice(bags[i], bags[j])
        for i in range(len(bags))
        for j in range(i + 1, len(bags))
        if dice(bags[i], bags[j]) > above
    }
    assert {(p.first, p.second): p.similarity for p in near_pairs(bags, above=above)} == expected
    half = len(bags) // 2
    across = {(p.first, p.second + half) for p in near_pairs(bags[:half], bags[half:], above=above)}
    assert across == {(i, j) for i, j in expected if i < half <= j}
    assert all(similarity(t, t.replace("value", "other")) == 1 for t in TEXTS)
