"""What repeats another task or the benchmark goes, and the mix's shares hold."""

import pytest
from tests.synthesis.small import written

from warpsmith.synthesis.mixes import PAPER
from warpsmith.synthesis.selecting import StructureLog, select
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
