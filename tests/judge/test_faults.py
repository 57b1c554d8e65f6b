"""Faults of a submission on the simulator: each has its status, and the next judgement is right.

`docs/design/faults.md` has the table. Those that only a GPU has stand in `test_faults_on_gpu.py`.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.judge.samples import FAULT_KERNEL, MODEL_NEW, submission, task

from warpsmith.recipes.fleet import LocalFleet
from warpsmith.store.scratch import ScratchFolder
from warpsmith.types import Device, Status, Submission, Verdict
from warpsmith.types.protocols import JudgeSettings

Judge = Callable[..., Verdict]


@pytest.fixture(scope="module")
def judge(caches: Path) -> Iterator[Judge]:
    """`judge(submission, **settings)` by one worker that stays, as runs of many submissions have it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARPSMITH_CACHE", str(caches))
        with LocalFleet(Device.SIM, 1) as fleet:
            station = fleet.station()

            def run(evil: Submission, **settings: object) -> Verdict:
                return station.judge.judge(task(), evil, JudgeSettings(device=Device.SIM, **settings))

            yield run


def faulty(number: int, first: str = "pass") -> Submission:
    """The kernel with a fault in it, 0 for none, or a statement before it."""
    model = MODEL_NEW.replace("x.shape[1])", f"x.shape[1], {number})")
    return submission(model.replace("        out =", f"        {first}\n        out ="), FAULT_KERNEL)


FAULTS = {
    "illegal access": (faulty(1), Status.CRASHED, "SIGSEGV"),
    "device assert": (faulty(2), Status.CRASHED, "assertion `fault != 2` failed"),
    "endless kernel": (faulty(3), Status.TIMED_OUT, "did not answer"),
    "more memory than there is": (faulty(0, "torch.empty(1 << 50)"), Status.CRASHED, "memory"),
}


@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_has_its_status_and_the_next_judgement_is_right(judge: Judge, what: str) -> None:
    evil, status, said = FAULTS[what]
    # only what never ends is waited for so short: a busy machine may take long for all else
    limit = {"call_timeout_s": 2.0} if status is Status.TIMED_OUT else {}
    verdict = judge(evil, **limit)
    assert verdict.status is status, verdict.detail
    assert said in verdict.detail
    after = judge(faulty(0))
    assert after.status is Status.PASSED, after.detail


def jumping() -> Iterator[float]:
    """A wall clock that goes a year ahead, two years back, and so on."""
    year_s = 365 * 86_400.0
    for steps in itertools.cycle((1, -1, 3, 0)):
        yield year_s * steps


def test_a_wall_clock_that_jumps_ends_nothing_and_removes_nothing_in_use(
    judge: Judge, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Limits are kept by the monotonic clock; what is swept by age is swept only where nobody holds it."""
    right, jumps = time.time, jumping()
    held = ScratchFolder("jump-", tmp_path)
    monkeypatch.setattr(time, "time", lambda: right() + next(jumps))
    for _ in range(4):
        ScratchFolder("jump-", tmp_path).remove()
    assert held.path.is_dir()
    verdict = judge(faulty(0), timeout_s=600.0)
    assert verdict.status is Status.PASSED, verdict.detail
