"""The judge of a training run, which many episodes ask at a time."""

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from tests.agent.loop import SETTINGS, TASK

from warpsmith.errors import InfrastructureError
from warpsmith.judge.repeating import known
from warpsmith.rollout.scripted import scripted_verdict
from warpsmith.training.judges import JudgeSpec, SharedJudge, connect_judge
from warpsmith.types import Device, Status, Submission, Task, Verdict
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
        made.append(OneAtATime(others))
        return made[-1]

    shared = SharedJudge(make, 3)
    given = [Submission(files={"model_new.py": f"{number}"}) for number in range(15)]
    with ThreadPoolExecutor(15) as threads:
        verdicts = list(threads.map(lambda one: shared.judge(TASK, one, SETTINGS), given))
    assert [verdict.submission_hash for verdict in verdicts] == [one.submission_hash for one in given]
    assert len(made) == 3 and all(a is not b for a, b in pairwise(made))


def test_a_judge_that_fails_is_free_again() -> None:
    shared = SharedJudge(lambda: OneAtATime(threading.Barrier(1)), 1)
    for _ in range(2):
        with pytest.raises(InfrastructureError):
            shared.judge(TASK, Submission(files={"model_new.py": "lost"}), SETTINGS)
    assert shared.judge(TASK, Submission(files={"model_new.py": "x"}), SETTINGS).status is Status.PASSED


@pytest.mark.slow
def test_the_real_judge_is_asked_by_several_threads() -> None:
    bench = connect_judge(
        JudgeSpec(settings=JudgeSettings(device=Device.SIM, measure=False, baselines=Menu.PAPER))
    )
    task, right = known()
    wrong = Submission(
        files={name: text.replace("2.0f * x", "3.0f * x") for name, text in right.files.items()}
    )
    try:
        with ThreadPoolExecutor(2) as threads:
            found = list(
                threads.map(lambda one: bench.judge.judge(task, one, bench.settings), [right, wrong])
            )
    finally:
        bench.close()
    assert [verdict.status for verdict in found] == [Status.PASSED, Status.WRONG]
