"""What repeats another task or the benchmark goes, and the mix's shares hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.synthesis.small import written

from warpsmith.synthesis.mixes import PAPER
from warpsmith.synthesis.records import Band
from warpsmith.synthesis.selecting import rooms, select
from warpsmith.synthesis.structure_log import StructureLog
from warpsmith.types import Task

EXP = written("return torch.exp(x).sum(1)")
RENAMED = EXP.model_copy(
    update={"name": "renamed", "code": EXP.code.replace("batch", "rows").replace("1024", "512")}
)
TANH = written("return torch.tanh(x).amax(1)")
GELU = written("return F.gelu(x).cumsum(1)")


@pytest.fixture(scope="module")
def structures(tmp_path_factory):
    with StructureLog(tmp_path_factory.mktemp("log") / "structures.jsonl") as log:
        yield log


def test_repeats_and_the_benchmarks_tasks_go(structures):
    benchmark = [Task(name="theirs", code=TANH.code.replace("64", "32"), level=1, problem_id=2)]
    kept, counts = select([EXP, RENAMED, TANH, GELU], structures, benchmark)
    codes = {task.code for task, _ in kept}
    assert GELU.code in codes and len(codes & {EXP.code, RENAMED.code}) == 1 and len(codes) == 2
    assert sum(counts.contaminated.values()) == 1 and sum(counts.duplicates.values()) == 1
    assert (counts.offered, counts.kept) == (4, 2)
    assert len({found.fingerprint for _, found in kept}) == 2


def test_what_the_log_holds_is_not_traced_again(structures):
    def told(done: int, of: int) -> None:
        raise AssertionError("nothing is missing")

    select([EXP, GELU], structures, [])
    kept, _ = select([EXP, GELU], structures, [], told=told)
    assert [task for task, _ in kept] == [EXP, GELU]


def test_shares_of_a_mix(structures):
    mix = PAPER.model_copy(update={"operators": {1: 0.5, 2: 0.5}, "blocks": 0.0})
    pair = GELU.model_copy(update={"ops": ("torch.nn.functional.gelu", "torch.cumsum")})
    kept, counts = select([EXP, TANH, pair], structures, [], mix=mix, count=2)
    assert [task for task, _ in kept] == [EXP, pair] and counts.over_share == 1
    assert counts.lacking == {}


def test_other_kinds_stand_in_for_one_that_lacks(structures):
    mix = PAPER.model_copy(update={"operators": {1: 0.4, 2: 0.6}, "blocks": 0.0})
    kept, counts = select([EXP, TANH, GELU], structures, [], mix=mix, count=3)
    assert len(kept) == 3 and counts.lacking == {"2": 2} and counts.over_share == 0


def test_a_mix_with_bands_counts_by_them(structures):
    mix = PAPER.model_copy(update={"bands": {Band.EASY: 0.5, Band.EXPERT: 0.5}})
    bands = {EXP.code: Band.EASY, TANH.code: Band.EASY, GELU.code: Band.EXPERT}
    kept, _ = select([EXP, TANH, GELU], structures, [], mix=mix, count=2, band=lambda task: bands[task.code])
    assert [task for task, _ in kept] == [EXP, GELU]


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.floats(0.01, 1.0), min_size=1),
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 300)),
    st.integers(1, 500),
)
def test_rooms_are_filled_by_share_and_never_beyond_what_is_there(shares, held, count):
    found = rooms(shares, held, count)
    whole = sum(shares.values())
    assert sum(found.values()) == min(count, sum(held.get(kind, 0) for kind in shares))
    for kind, room in found.items():
        assert 0 <= room <= held.get(kind, 0)
        # less than its share only where it holds no more
        assert room == held.get(kind, 0) or room >= round(count * shares[kind] / whole) - len(shares)
