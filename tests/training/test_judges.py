"""The judge of a training run, which many episodes ask at a time."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.agent.loop import SETTINGS, TASK

from warpsmith.errors import InfrastructureError
from warpsmith.judge.repeating import known
from warpsmith.rollout.scripted import ScriptedCompiler, ScriptedJudge, scripted_verdict
from warpsmith.training.judges import BuildFirst, JudgeSpec, SharedJudge, connect_judge
from warpsmith.training.reward import RewardSettings, scalar
from warpsmith.types import (
    CompileResult,
    CompileStatus,
    Device,
    Phase,
    Status,
    Submission,
    Target,
    Task,
    Verdict,
)  # fmt: skip
from warpsmith.types.protocols import JudgeSettings, Menu


class OneAtATime:
    """A judge that fails where two threads are in it at once, as a `LocalJudge` may; all wait for `others`."""

    def __init__(self, others: threading.Barrier):
        self._others = others
        self._one = threading.Lock()

    def judge(self, task: Task, submission: Submission, settings: JudgeSettings) -> Verdict:
        assert self._one.acquire(blocking=False), "two threads in one judge"
        try:
            if submission.files["model_new.py"] == "lost":
                raise InfrastructureError("the pool has gone")
            self._others.wait(60)
            return scripted_verdict(task, submission, settings)
        finally:
            self._one.release()


def test_as_many_judge_as_may_and_each_with_one_of_its_own() -> None:
    # nobody gets through the barrier unless three are judging at the same time, and none of the fifteen is lost
    others, made = threading.Barrier(3), []

    def make() -> OneAtATime:
        one = OneAtATime(others)
        made.append(one)
        return one

    shared = SharedJudge(make, 3)
    given = [Submission(files={"model_new.py": f"{number}"}) for number in range(15)]
    with ThreadPoolExecutor(15) as threads:
        verdicts = list(threads.map(lambda one: shared.judge(TASK, one, SETTINGS), given))
    assert [verdict.submission_hash for verdict in verdicts] == [one.submission_hash for one in given]
    assert len(made) == 3


def test_a_judge_that_fails_is_free_again() -> None:
    shared = SharedJudge(lambda: OneAtATime(threading.Barrier(1)), 1)
    for _ in range(2):
        with pytest.raises(InfrastructureError):
            shared.judge(TASK, Submission(files={"model_new.py": "lost"}), SETTINGS)
    assert shared.judge(TASK, Submission(files={"model_new.py": "x"}), SETTINGS).status is Status.PASSED


class OnlySound(ScriptedCompiler):
    """Builds all but what says `broken`."""

    def build(self, submission: Submission, target: Target, task: Task | None = None) -> CompileResult:
        found = super().build(submission, target, task)
        if submission.files["model_new.py"] != "broken":
            return found
        return found.model_copy(
            update={"status": CompileStatus.FAILED, "log": "In function f\nerror: it says so"}
        )


def test_what_does_not_build_is_not_put_before_the_judge() -> None:
    judge = ScriptedJudge(lambda task, given, settings, calls: scripted_verdict(task, given, settings))
    first = BuildFirst(judge, OnlySound(), Target(device=Device.SIM), 2)
    found = [
        first.judge(TASK, Submission(files={"model_new.py": text}), SETTINGS) for text in ("broken", "sound")
    ]
    assert [verdict.status for verdict in found] == [Status.COMPILE_FAILED, Status.PASSED]
    assert (found[0].detail, found[0].phase) == ("error: it says so", Phase.COMPILE)
    assert judge.asked == [found[1].submission_hash]


@pytest.mark.slow
def test_the_real_judge_is_asked_by_several_threads() -> None:
    bench = connect_judge(
        JudgeSpec(settings=JudgeSettings(device=Device.SIM, measure=False, baselines=Menu.PAPER))
    )
    task, right = known()
    broken = Submission(files=right.files | {"kernels/axpy.cu": "no kernel"})
    ends = Task(name="ends", code="import os\nos.kill(os.getpid(), 9)\n" + task.code)
    asked = [(ends, right), (task, broken), (task, right)]
    try:
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(lambda one: bench.judge.judge(*one, bench.settings), asked))
    finally:
        bench.close()
    # a task that ends its process says nothing of any policy, and costs the others nothing
    assert [verdict.status for verdict in found] == [
        Status.UNSUPPORTED, Status.COMPILE_FAILED, Status.PASSED,
    ]  # fmt: skip
    assert scalar(found[0], RewardSettings()) is None
