"""Whose fault a lost judgement is, by scripted judges."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.errors import InfrastructureError
from warpsmith.judge.repeating import RepeatingJudge, known
from warpsmith.rollout.scripted import ScriptedJudge, scripted_verdict
from warpsmith.types import Device, Status, Submission, Task, Verdict
from warpsmith.types.protocols import JudgeSettings

TASK = Task(name="t", code="# t")
OTHER = Submission(files={"model_new.py": "# evil"})
SETTINGS = JudgeSettings(device=Device.SIM)
LOST, PASSED, WRONG = Status.INFRASTRUCTURE, Status.PASSED, Status.WRONG


def judge(answers: Iterator[Status], tests: Iterator[Status], renewed: list[Device]) -> RepeatingJudge:
    """Answers on other submissions and on the known one, in order."""

    def answer(task: Task, given: Submission, settings: JudgeSettings, calls: int) -> Verdict:
        status = next(tests if given == known()[1] else answers)
        return scripted_verdict(task, given, settings, status, detail="as scripted")

    return RepeatingJudge(ScriptedJudge(answer), renewed.append)


def always(status: Status) -> Iterator[Status]:
    while True:
        yield status


def test_a_verdict_is_handed_on_and_nothing_else_is_judged():
    renewed: list[Device] = []
    found = judge(iter([WRONG]), iter([]), renewed).judge(TASK, OTHER, SETTINGS)
    assert (found.status, renewed) == (WRONG, [])


def test_a_fault_that_does_not_come_again_is_nobodys():
    renewed: list[Device] = []
    found = judge(iter([LOST, PASSED]), always(PASSED), renewed).judge(TASK, OTHER, SETTINGS)
    assert (found.status, renewed) == (PASSED, [Device.SIM])


@pytest.mark.parametrize(("proven", "tries"), [(False, 3), (True, 2)])
def test_a_fault_that_repeats_between_passed_tests_is_the_submissions(proven: bool, tries: int):
    renewed: list[Device] = []
    first = [PASSED] if proven else []
    lost = [LOST] * tries
    repeating = judge(iter([*first, *lost]), always(PASSED), renewed)
    for status in first:
        assert repeating.judge(TASK, OTHER, SETTINGS).status is status
    found = repeating.judge(TASK, OTHER, SETTINGS)
    assert found.status is Status.CRASHED
    assert found.detail.endswith("judge other kernels rightly: as scripted")
    assert len(renewed) == tries - 1


@given(st.lists(st.sampled_from([PASSED, WRONG, LOST]), max_size=6))
def test_where_a_known_kernel_fails_nobody_is_blamed(tests):
    # the tests fail at the end at the latest
    renewed: list[Device] = []
    script = iter([*tests, *[LOST] * 10])
    found = judge(always(LOST), script, renewed).judge(TASK, OTHER, SETTINGS)
    # blamed: the first fault has none before it, then two with a passed test on both sides
    blamed = [*tests, LOST][:5].count(PASSED) == 5
    assert found.status is (Status.CRASHED if blamed else LOST)


def test_what_is_raised_goes_on_up():
    def answer(*_: object) -> Verdict:
        raise InfrastructureError("no compiler")

    with pytest.raises(InfrastructureError, match="no compiler"):
        RepeatingJudge(ScriptedJudge(answer), lambda device: None).judge(TASK, OTHER, SETTINGS)
