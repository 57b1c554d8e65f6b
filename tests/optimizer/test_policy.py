"""The policy as an episode sees it: steps, errors of the task's own process, and resuming."""

from pathlib import Path

import pytest
from tests.optimizer.samples import MODELS, task

from warpsmith.errors import InfrastructureError, TaskRefusedError, TaskUnreadableError
from warpsmith.gpu import LocalPool
from warpsmith.optimizer import BuiltinPolicy
from warpsmith.sandbox.process import Tree
from warpsmith.types import (
    Device,
    ErrorStats,
    Job,
    JobOutcome,
    JobResult,
    Phase,
    Rules,
    Status,
    Submission,
    Task,
    Verdict,
)


class Environment:
    """A task and a folder; what is judged is up to the test."""

    device = Device.SIM

    def __init__(self, code: str, workdir: Path) -> None:
        self.task = Task(name="sample", code=code)
        self.workdir = workdir

    def compile(self, submission: Submission) -> object:
        raise AssertionError("the policy leaves compiling to the judge")

    def judge(self, submission: Submission) -> Verdict:
        raise AssertionError("the policy only yields")

    def verdict(self, submission: Submission, status: Status) -> Verdict:
        passed = status is Status.PASSED
        return Verdict(
            status=status,
            device=self.device,
            rules=Rules.PRACTICAL,
            task_hash=self.task.task_hash,
            submission_hash=submission.submission_hash,
            phase=Phase.DONE if passed else Phase.CORRECTNESS,
            error=ErrorStats(rel=0.0, max_abs=0.0) if passed else None,
            paper_gate=passed or None,
            scale_gate=passed or None,
        )


class CountingPool:
    """The local pool, with the jobs it was given."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.pool = LocalPool(Tree)

    def run(self, job: Job) -> JobResult:
        self.jobs.append(job)
        return self.pool.run(job)


class BrokenPool:
    """Every job ends without an answer."""

    def __init__(self, outcome: JobOutcome, exit_code: int | None) -> None:
        self.result = JobResult(outcome=outcome, exit_code=exit_code, log_tail="last words\n")

    def run(self, job: Job) -> JobResult:
        return self.result


def test_passes_resumes_and_falls_back(tmp_path: Path) -> None:
    env, pool = Environment(task(*MODELS["matmul_sum_scale"]), tmp_path), CountingPool()
    steps = BuiltinPolicy(pool=pool).solve(env)
    first = next(steps)
    assert "matrix-vector" in first.note
    assert set(first.submission.files) == {"model_new.py", "kernels/fused.cu"}
    with pytest.raises(StopIteration):
        steps.send(env.verdict(first.submission, Status.PASSED))

    again = BuiltinPolicy(pool=pool).solve(env)
    assert next(again) == first
    assert len(pool.jobs) == 1
    second = again.send(env.verdict(first.submission, Status.WRONG))
    assert second.note.startswith("the first submission ended as wrong")
    assert second.submission != first.submission
    assert "aten.matmul" in second.submission.files["model_new.py"]
    assert len(pool.jobs) == 2
    with pytest.raises(StopIteration):
        again.send(env.verdict(second.submission, Status.PASSED))


def test_nothing_to_own_is_said(tmp_path: Path) -> None:
    code = task("return torch.linalg.inv(a[0])", "[torch.rand(4, 4)]")
    (step,) = BuiltinPolicy().solve(Environment(code, tmp_path))
    assert step.submission is None
    assert step.note.endswith("kept as torch calls: aten.linalg_inv")
    assert step.left == ("aten.linalg_inv",)


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [
        ("class Model(:\n", TaskUnreadableError, "syntax error"),
        (task("raise ValueError('bad luck')", "[torch.rand(2)]"), TaskRefusedError, "bad luck"),
        ("import os\nos.kill(os.getpid(), 9)\n", TaskRefusedError, "signal"),
        ("raise SystemExit(0)\n", TaskRefusedError, "SystemExit"),
        ("import os\nos._exit(0)\n", TaskRefusedError, "status 0"),
    ],
)
def test_the_tasks_faults_become_errors(
    code: str, error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        next(BuiltinPolicy().solve(Environment(code, tmp_path)))


def test_a_process_that_takes_too_long_or_fails(tmp_path: Path) -> None:
    env = Environment("x = 1", tmp_path)
    slow = BuiltinPolicy(pool=BrokenPool(JobOutcome.TIMED_OUT, None), timeout_s=7)
    with pytest.raises(TaskRefusedError, match="longer than 7 s"):
        next(slow.solve(env))
    for outcome in (JobOutcome.LOST, JobOutcome.CANCELLED):
        # nobody's fault who is judged here: a run goes on from there
        with pytest.raises(InfrastructureError, match=f"was {outcome.value}"):
            next(BuiltinPolicy(pool=BrokenPool(outcome, None)).solve(env))
    broken = BuiltinPolicy(pool=BrokenPool(JobOutcome.CRASHED, 1))
    with pytest.raises(InfrastructureError, match="status 1: last words"):
        next(broken.solve(env))
