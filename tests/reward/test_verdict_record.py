"""What a verdict must hold before it can be worth anything, and the one table of statuses."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from warpsmith.cli.errors import INFRASTRUCTURE, OTHER_VERDICT, PASSED, USAGE, exit_status
from warpsmith.cli.judge import status_of as exit_code_of
from warpsmith.errors import (
    CheatingError,
    InfrastructureError,
    SubmissionError,
    SubmissionUnreadableError,
    SubmissionUnsupportedError,
    TaskError,
    TaskUnreadableError,
    TaskUnsupportedError,
)
from warpsmith.judge.verdict import STATUS_OF
from warpsmith.reward import reward_of
from warpsmith.types import (
    STATUS_TABLE,
    Accuracy,
    BaselineKind,
    Device,
    ErrorStats,
    Fault,
    MatchedSpeedup,
    MenuTime,
    ModeAccuracy,
    PaperSpeedup,
    Phase,
    Rules,
    Speedup,
    Status,
    TimeStats,
    Timings,
    Verdict,
)

DOCS = Path(__file__).parents[2] / "docs" / "verdicts.md"
STATS = TimeStats(calls=10, median_ms=1.0, p25_ms=1.0, p75_ms=1.0, min_ms=1.0, raw_median_ms=1.0, null_ms=0.0)
COMPLETE = {
    "status": Status.PASSED,
    "device": Device.CUDA,
    "rules": Rules.PAPER,
    "task_hash": "t",
    "submission_hash": "s",
    "phase": Phase.DONE,
    "error": ErrorStats(rel=1e-6, max_abs=1e-5),
    "paper_gate": True,
    "scale_gate": True,
    "timings": Timings(candidate=STATS, eager=STATS, compile=STATS),
    "speedup": Speedup(paper=PaperSpeedup(eager=2.0, compile=2.0)),
}


def test_the_complete_verdict_is_valid_and_wins() -> None:
    assert reward_of(Verdict(**COMPLETE)).milestone == 3


@pytest.mark.parametrize("status", [Status.PASSED, Status.UNSTABLE])
@pytest.mark.parametrize(
    "change",
    [
        {"error": None},
        {"paper_gate": None},
        {"scale_gate": None},
        {"paper_gate": False},
        {"scale_gate": False},
        {"phase": Phase.TIMING},
        {"timings": None},
        {"timings": Timings(candidate=STATS, compile=STATS)},
        {"timings": Timings(candidate=STATS, eager=STATS)},
        {"device": Device.SIM},
    ],
    ids=str,
)
def test_a_verdict_that_lacks_what_its_status_claims_is_invalid(status: Status, change: dict) -> None:
    with pytest.raises(ValidationError):
        Verdict(**COMPLETE | {"status": status} | change)


@pytest.mark.parametrize("status", sorted(set(Status) - {Status.PASSED, Status.UNSTABLE}))
def test_only_a_correct_submission_has_a_speedup(status: Status) -> None:
    with pytest.raises(ValidationError, match="no speed-up"):
        Verdict(**COMPLETE | {"status": status})


@given(st.sets(st.sampled_from(sorted(COMPLETE)), min_size=1))
def test_whatever_is_missing_never_wins(missing: set[str]) -> None:
    fields = {name: value for name, value in COMPLETE.items() if name not in missing}
    try:
        verdict = Verdict(**fields)
    except ValidationError:
        return
    assert missing <= {"timings", "speedup"}
    assert reward_of(verdict).milestone == 1


@pytest.mark.parametrize("ratio", [0.0, -3.0, math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("kind", [PaperSpeedup, MatchedSpeedup])
def test_no_ratio_is_zero_negative_or_not_finite(kind: type, ratio: float) -> None:
    for mode in ("eager", "compile", *(["best"] if kind is MatchedSpeedup else [])):
        with pytest.raises(ValidationError):
            kind(**{mode: ratio})


TWICE = STATS.model_copy(update={"median_ms": 2.0})
TIMES = Timings(
    candidate=STATS, eager=TWICE, compile=TWICE,
    menu=(MenuTime(mode="tf32", kind=BaselineKind.EAGER, stats=STATS),
          MenuTime(mode="tf32", kind=BaselineKind.FROZEN, problem="failed: it raised")),
)  # fmt: skip
MATCHED = MatchedSpeedup(
    eager=1.0, compile=2.0, best=1.0,
    eager_baseline="tf32 eager", compile_baseline="default compile", best_baseline="tf32 eager",
)  # fmt: skip


def with_matched(matched: MatchedSpeedup, timings: Timings = TIMES) -> Verdict:
    paper = PaperSpeedup(eager=2.0, compile=2.0)
    return Verdict(**COMPLETE | {"timings": timings, "speedup": Speedup(paper=paper, matched=matched)})


def test_a_matched_speedup_is_made_of_the_times_that_it_names() -> None:
    verdict = with_matched(MATCHED)
    assert reward_of(verdict).milestone == 1
    assert reward_of(verdict).raw == 2.0
    assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict


@pytest.mark.parametrize(
    "change",
    [
        {"eager": 1.5, "best": 1.5},
        {"eager_baseline": "bf16 eager"},
        {"compile_baseline": "tf32 frozen"},
        {"best": 2.0, "best_baseline": "default compile"},
        {"eager": None},
        {"eager": None, "eager_baseline": None, "compile": None, "compile_baseline": None},
    ],
    ids=str,
)
def test_a_matched_speedup_without_its_times_is_invalid(change: dict) -> None:
    with pytest.raises(ValidationError):
        with_matched(MATCHED.model_copy(update=change))


def test_a_matched_speedup_needs_a_time_of_its_side() -> None:
    only_eager = Timings(candidate=STATS, menu=(MenuTime(mode="tf32", kind=BaselineKind.EAGER, stats=STATS),))
    fields = COMPLETE | {"timings": only_eager}
    for matched, valid in ((MatchedSpeedup(eager=1.0), True), (MatchedSpeedup(compile=1.0), False)):
        speedup = Speedup(paper=PaperSpeedup(), matched=matched)
        if valid:
            Verdict(**fields | {"speedup": speedup})
        else:
            with pytest.raises(ValidationError, match="needs the time"):
                Verdict(**fields | {"speedup": speedup})


def test_a_baseline_has_a_time_or_a_reason() -> None:
    for fields in ({}, {"stats": STATS, "problem": "failed"}):
        with pytest.raises(ValidationError):
            MenuTime(mode="tf32", kind=BaselineKind.EAGER, **fields)


ACCURATE = {
    "oracle": True, "eps": 1e-7, "candidate": {"as drawn": 1e-6},
    "modes": (ModeAccuracy(mode="default", errors={"as drawn": math.inf}, competes=True, why="always competes"),),
}  # fmt: skip


def test_errors_survive_storing_also_where_they_are_infinite() -> None:
    verdict = Verdict(**COMPLETE | {"accuracy": Accuracy(**ACCURATE)})
    assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict
    assert verdict.accuracy.competing() == ("default",)


@pytest.mark.parametrize(
    "change",
    [
        {"candidate": {"as drawn": math.nan}},
        {"candidate": {"as drawn": -1.0}},
        {"candidate": {"zero-mean": 1e-6}},
        {"oracle": False},
        {"oracle": False, "oracle_problem": "no memory"},
        {"oracle_problem": "no memory"},
    ],
    ids=str,
)
def test_an_accuracy_that_contradicts_itself_is_invalid(change: dict) -> None:
    with pytest.raises(ValidationError):
        Accuracy(**ACCURATE | change)


def test_a_verdict_stored_before_there_was_a_menu_still_loads() -> None:
    old = Verdict(**COMPLETE).model_dump(mode="json")
    del old["accuracy"], old["timings"]["menu"]
    assert Verdict.model_validate(old) == Verdict(**COMPLETE)


@pytest.mark.parametrize("time_ms", [0.0, -1.0, math.inf, math.nan])
def test_no_time_is_zero_negative_or_not_finite(time_ms: float) -> None:
    for name in ("median_ms", "p25_ms", "p75_ms", "min_ms"):
        with pytest.raises(ValidationError):
            TimeStats(**STATS.model_dump() | {name: time_ms})


def test_exit_codes_are_those_of_the_command_line() -> None:
    assert {row.exit_code for row in STATUS_TABLE.values()} == {PASSED, OTHER_VERDICT, INFRASTRUCTURE}
    assert {status: exit_code_of(status.value) for status in Status} == {
        status: row.exit_code for status, row in STATUS_TABLE.items()
    }


FAULT_OF = (
    (TaskUnsupportedError, Fault.DEVICE),
    (SubmissionUnsupportedError, Fault.DEVICE),
    (TaskError, Fault.TASK),
    (SubmissionError, Fault.SUBMISSION),
    (CheatingError, Fault.SUBMISSION),
    (InfrastructureError, Fault.MACHINE),
)


@pytest.mark.parametrize("kind", STATUS_OF, ids=lambda kind: kind.__name__)
def test_an_error_and_the_verdict_made_of_it_blame_the_same(kind: type) -> None:
    row = STATUS_TABLE[STATUS_OF[kind]]
    assert row.fault is next(fault for base, fault in FAULT_OF if issubclass(kind, base))
    error = kind("no", check="x") if kind is CheatingError else kind("no")
    unreadable = issubclass(kind, (TaskUnreadableError, SubmissionUnreadableError))
    # before there is a judgement, a file that cannot be read is wrong usage
    assert exit_status(error) == (USAGE if unreadable else row.exit_code)


def test_the_docs_hold_the_same_table() -> None:
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", DOCS.read_text(), re.MULTILINE)
    documented = {name: tuple(cell.strip() for cell in cells.split("|"))[1:] for name, cells in rows}
    assert list(documented) == [status.value for status in Status]
    for status, row in STATUS_TABLE.items():
        retried = "yes" if row.retried else "no"
        assert documented[status.value] == (row.fault.value, row.reward.value, str(row.exit_code), retried)
