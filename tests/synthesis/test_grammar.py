"""Composed tasks: the same bytes each time, of the wanted kind and time, and they run."""

import collections

import pytest
import torch
from tests.synthesis.small import small_catalogue

from warpsmith.errors import UsageError
from warpsmith.synthesis.bands import band_of
from warpsmith.synthesis.composing import ComposeLog, compose_set
from warpsmith.synthesis.cost import CostModel, look
from warpsmith.synthesis.grammar import GrammarComposer
from warpsmith.synthesis.labels import not_run
from warpsmith.synthesis.mixes import GRADED, PAPER, load_mix
from warpsmith.synthesis.records import Band
from warpsmith.synthesis.smaller import MAX_ELEMENTS, smaller

MIX = PAPER.model_copy(update={"operators": {1: 0.2, 2: 0.5, 3: 0.3}})


@pytest.fixture(scope="module")
def tasks():
    composer = GrammarComposer(small_catalogue(), MIX, seed=3)
    return [composer.compose(index) for index in range(12)]


def test_the_same_seed_gives_the_same_bytes_whatever_was_made_before(tasks):
    again = GrammarComposer(small_catalogue(), MIX, seed=3)
    assert again.compose(11) == tasks[11]
    assert again.compose(4) == tasks[4]
    assert GrammarComposer(small_catalogue(), MIX, seed=4).compose(4).code != tasks[4].code


def test_estimates_lie_where_the_mix_wants_them(tasks):
    low, high = MIX.drawn_ms
    for task in tasks:
        assert low <= task.cost.eager_ms <= high
        assert task.cost.peak_bytes <= MIX.peak_bytes
        assert task.cost == CostModel.of("H200").estimate(look(task.code))


def test_labels_are_what_runs(tasks):
    for task in tasks:
        assert task.data_source == f"torch#{len(task.ops)}"
        assert not_run(task.ops, task.code) == ()


def test_they_run_in_eager_at_small_sizes(tasks):
    for task in tasks:
        text, full = smaller(task.code)
        assert text is not None and full.largest > MAX_ELEMENTS
        scope: dict = {}
        exec(text, scope)
        with torch.no_grad():
            inputs = scope["get_inputs"]()
            output = scope["Model"](*scope["get_init_inputs"]()).eval()(*inputs)
        assert bool(torch.isfinite(output).all())
        assert max(t.numel() for t in (*inputs, output)) <= MAX_ELEMENTS


def test_a_set_holds_no_structure_twice_and_goes_on_to_the_same_bytes(tmp_path):
    composer = GrammarComposer(small_catalogue(), MIX, seed=3)
    with ComposeLog(tmp_path / "whole.jsonl") as log:
        counts = compose_set(composer, log, 14)
        held = log.rows()
    assert counts.composed == 14 == len({task.key for task in held})
    assert counts.tried == counts.composed + counts.repeated + counts.not_found
    with ComposeLog(tmp_path / "parts.jsonl") as log:
        compose_set(composer, log, 6)
    with ComposeLog(tmp_path / "parts.jsonl") as log:
        assert compose_set(composer, log, 14).composed == 8
    assert (tmp_path / "whole.jsonl").read_bytes() == (tmp_path / "parts.jsonl").read_bytes()


def test_a_graded_mix_draws_every_band():
    composer = GrammarComposer(small_catalogue(), GRADED, seed=1)
    found = [composer.compose(index) for index in range(16)]
    bands = collections.Counter(band_of(len(task.ops), task.cost) for task in found)
    assert set(bands) == set(Band)


def test_a_mix_asks_for_headroom():
    def least(headroom: float) -> float:
        composer = GrammarComposer(small_catalogue(), MIX.model_copy(update={"headroom": headroom}), seed=3)
        return min(composer.compose(index).cost.headroom for index in range(12))

    assert least(1.0) < 3.0 <= least(3.0)


@pytest.mark.parametrize(
    ("text", "problem"), [("name = 3", "no mix"), ("name = 'x'\nunknown = 1\n[operators]\n1 = 1.0", "no mix")]
)
def test_a_mix_of_ones_own(tmp_path, text, problem):
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(UsageError, match=problem):
        load_mix(str(tmp_path / "bad.toml"))
    (tmp_path / "own.toml").write_text(
        'name = "own"\ndrawn_ms = [2.0, 20.0]\n[operators]\n2 = 1.0\n[families]\nconv = 0.0\n'
    )
    mix = load_mix(str(tmp_path / "own.toml"))
    assert mix.operators == {2: 1.0} and mix.drawn_ms == (2.0, 20.0)
    with pytest.raises(UsageError, match="no mix 'nothing'"):
        load_mix("nothing")
