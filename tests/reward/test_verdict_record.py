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
    Device,
    ErrorStats,
    Fault,
    MatchedSpeedup,
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
    for mode in kind.model_fields:
        with pytest.raises(ValidationError):
            kind(**{mode: ratio})


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
