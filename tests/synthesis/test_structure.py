import pytest
from tests.synthesis.planted import COPIES, NEAR_MISSES, TASK

from warpsmith.synthesis.structure import FingerprintKind, Outcome, structures

HANGS = TASK.replace("batch, width, out = 64", "while True: pass\nbatch, width, out = 64")
ENDS = TASK.replace("batch, width, out = 64", "import os; os._exit(0)\nbatch, width, out = 64")
RAISES = TASK.replace("nn.LayerNorm(out)", "nn.LayerNorm(out + 1)")
BRANCHES = TASK.replace("a = self.first(x)", "a = self.first(x) if x.sum() > 0 else self.first(-x)")
NO_PYTHON = "class Model(:"


@pytest.fixture(scope="module")
def found() -> dict:
    tasks = {
        "task": TASK,
        **COPIES,
        **NEAR_MISSES,
        "raises": RAISES,
        "branches": BRANCHES,
        "no python": NO_PYTHON,
    }
    return dict(zip(tasks, structures(list(tasks.values()), run=True, workers=2), strict=True))


def test_copies_have_the_fingerprint_of_the_task(found: dict) -> None:
    assert found["task"].kind is FingerprintKind.GRAPH
    assert {name: found[name].fingerprint for name in COPIES} == dict.fromkeys(
        COPIES, found["task"].fingerprint
    )


def test_near_misses_have_others(found: dict) -> None:
    fingerprints = [found[name].fingerprint for name in ("task", *NEAR_MISSES)]
    assert all(found[name].kind is FingerprintKind.GRAPH for name in NEAR_MISSES)
    assert len(set(fingerprints)) == len(fingerprints)


def test_what_cannot_be_traced_says_so(found: dict) -> None:
    assert (found["raises"].kind, found["raises"].trace, found["raises"].run) == (
        "syntax",
        "raised",
        "raised",
    )
    assert (found["branches"].kind, found["branches"].trace, found["branches"].run) == (
        "syntax",
        "raised",
        "ok",
    )
    assert found["no python"].kind is FingerprintKind.UNREADABLE
    assert all(found[name].run is Outcome.OK for name in ("task", *COPIES))


def test_a_task_that_hangs_or_ends_its_process_costs_itself_alone() -> None:
    hangs, ends, task = structures([HANGS, ENDS, TASK], timeout_s=5)
    assert (hangs.trace, hangs.kind) == (Outcome.TIMED_OUT, FingerprintKind.SYNTAX)
    assert ends.trace is Outcome.CRASHED
    assert task.kind is FingerprintKind.GRAPH
