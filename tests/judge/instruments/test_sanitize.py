"""`judge --sanitize`: faults are named with their line, honest kernels pass, and what cannot run is said."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.judge.samples import KERNEL, submission, task

from warpsmith.compile import LocalCompiler
from warpsmith.gpu.pool import WorkerPool
from warpsmith.judge.instruments import memcheck
from warpsmith.judge.instruments.sanitize import BEFORE_GPU, DERIVED, SanitizedJudge
from warpsmith.judge.instruments.watched import instrumented
from warpsmith.judge.job import Instrument, JobFolder
from warpsmith.judge.runner.process import RunnerSpec
from warpsmith.judge.service import LocalJudge
from warpsmith.rollout.scripted import ScriptedJudge, scripted_verdict
from warpsmith.sandbox import best_available
from warpsmith.sim import fill, order
from warpsmith.types import CheckOutcome, Device, Rules, Status, Submission, Task, Verdict
from warpsmith.types.protocols import JudgeSettings

Sanitized = Callable[..., Verdict]


@pytest.fixture(scope="module")
def sanitized(local_judge: LocalJudge, caches: Path, pool: WorkerPool) -> Sanitized:
    """`sanitized(submission, **settings)` on the simulator, with the session's caches."""
    compiler = LocalCompiler(caches / "compile")
    judge = SanitizedJudge.local(local_judge, pool, compiler, best_available())

    def run(a_submission: Submission, **settings: object) -> Verdict:
        return judge.judge(task(), a_submission, JudgeSettings(device=Device.SIM, **settings))

    return run


def outcome(verdict: Verdict, name: str = "sanitizer") -> CheckOutcome:
    """The verdict's check of that name."""
    return next(check for check in verdict.checks if check.check == name)


def test_an_honest_kernel_passes_and_its_copies_count_as_no_operator(sanitized: Sanitized) -> None:
    verdict = sanitized(submission(), rules=Rules.PAPER)
    assert verdict.status is Status.PASSED, verdict.detail
    assert outcome(verdict).passed
    assert "no access outside memory" in outcome(verdict).detail


FAULTS = {
    "write beyond the output": ("if (i < n) out[i]", "if (i < n) out[i + 1]", "write of 4 bytes outside"),
    "read beyond the input": ("= x[i]", "= x[i + 1]", "read of 4 bytes outside global memory, 0 bytes after"),
    "read beyond a weight": ("% columns]", "% columns + 1]", "0 bytes after an allocation of 96 bytes"),
    "misaligned": (
        "out[i] = x[i]",
        "out[i] = reinterpret_cast<const float4*>(x + 1)->x * 0 + x[i]",
        "`float4` must lie at a multiple of 16 bytes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", FAULTS)
def test_a_faulty_access_is_a_crash_that_names_file_and_line(sanitized: Sanitized, what: str) -> None:
    old, new, said = FAULTS[what]
    assert old in KERNEL
    verdict = sanitized(submission(kernel=KERNEL.replace(old, new)))
    assert verdict.status is Status.CRASHED, verdict.detail
    assert verdict.detail.startswith("sanitizer: kernels/affine.cu:6")
    assert said in verdict.detail
    assert not outcome(verdict).passed and said in outcome(verdict).detail


DEADLOCK = KERNEL.replace(
    "    if (i < n) out",
    "    if (threadIdx.x & 1) __syncthreads();\n    else __shfl_sync(0xffffffffu, i, 0);\n    if (i < n) out",
)


def test_a_deadlock_names_block_and_line(sanitized: Sanitized) -> None:
    verdict = sanitized(submission(kernel=DEADLOCK))
    assert verdict.status is Status.CRASHED, verdict.detail
    assert re.search(r"deadlock in block \(\d,0,0\)", verdict.detail), verdict.detail
    assert "wait in __syncthreads at kernels/affine.cu:6" in verdict.detail
    assert not outcome(verdict).passed


def test_memory_that_nothing_wrote_is_told_from_a_wrong_value(sanitized: Sanitized) -> None:
    unwritten = sanitized(submission(kernel=KERNEL.replace("if (i < n)", "if (i < n - 1)")))
    assert unwritten.status is Status.WRONG and fill.UNWRITTEN in unwritten.notes
    wrong = sanitized(submission(kernel=KERNEL.replace("* scale +", "* scale / (i - i) +")))
    assert wrong.status is Status.WRONG and not wrong.notes, "NaN or Inf that is computed is not read"
    assert not outcome(wrong).passed


RACE = KERNEL.replace(
    "    if (i < n) out[i] = x[i] * scale + shift[i % columns];",
    "    __shared__ float last;\n    last = x[i % n] * scale;\n    BARRIER\n"
    "    if (i < n) out[i] = i == 143 ? last + shift[i % columns] : x[i] * scale + shift[i % columns];",
).replace("BARRIER", "__syncthreads();")


def test_a_result_that_changes_with_the_order_of_threads_names_the_orders(
    judge: Callable[..., Verdict],
) -> None:
    """Thread 143's block has 128 threads, the last of which is thread 255: who writes last decides."""
    verdict = judge(task(), submission(kernel=RACE))
    assert verdict.status is Status.WRONG
    (note,) = [note for note in verdict.notes if note.startswith(order.DEPENDS_ON_ORDER)]
    assert "forward" in note and "reverse" in note


def test_what_is_simply_wrong_depends_on_no_order(judge: Callable[..., Verdict]) -> None:
    verdict = judge(task(), submission(kernel=KERNEL.replace("* scale", "* 1.01f * scale")))
    assert verdict.status is Status.WRONG
    assert verdict.notes == ()


# --- which verdict decides, on scripted judges

LARGE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.randn(4096, 4096)]
def get_init_inputs():
    return []
"""
CUDA = JudgeSettings(device=Device.CUDA)
FOUND = CheckOutcome(check="sanitizer", passed=False, detail="k.cu:1")
CLEAN = CheckOutcome(check="sanitizer", passed=True, detail="none")


def scripted(*by_size: tuple[Status, tuple[CheckOutcome, ...]]) -> ScriptedJudge:
    """Answers its calls in turn."""

    def answer(a_task: Task, a_submission: Submission, settings: JudgeSettings, calls: int) -> Verdict:
        status, checks = by_size[calls - 1]
        return scripted_verdict(a_task, a_submission, settings, status, checks=checks, detail="said")

    return ScriptedJudge(answer)


def passing() -> ScriptedJudge:
    """The judgement proper."""
    return scripted((Status.PASSED, ()))


def test_a_fault_on_the_simulator_ends_the_judgement_before_the_gpu() -> None:
    proper = passing()
    verdict = SanitizedJudge(proper, scripted((Status.CRASHED, (FOUND,)))).judge(task(), submission(), CUDA)
    assert (verdict.status, verdict.device) == (Status.CRASHED, Device.CUDA)
    assert BEFORE_GPU in verdict.notes and proper.asked == []


@pytest.mark.parametrize(
    "status", [Status.UNSUPPORTED, Status.TIMED_OUT, Status.COMPILE_FAILED, Status.INFRASTRUCTURE]
)
def test_what_the_simulator_cannot_run_is_said_and_judged_on_the_gpu(status: Status) -> None:
    verdict = SanitizedJudge(passing(), scripted((status, ()))).judge(task(), submission(), CUDA)
    assert verdict.status is Status.PASSED
    assert f"sanitizer did not run: {status.value}: said" in verdict.notes
    assert f"memcheck did not run: {memcheck.MISSING}" in verdict.notes
    assert outcome(verdict).passed and outcome(verdict).detail.startswith("not run")


def test_a_fault_at_smaller_sizes_counts_only_if_the_tasks_own_show_it() -> None:
    large = task(LARGE)
    clean, crash = (Status.PASSED, (CLEAN,)), (Status.CRASHED, (FOUND,))
    unconfirmed = SanitizedJudge(passing(), scripted(crash, clean)).judge(large, submission(), CUDA)
    assert unconfirmed.status is Status.PASSED
    assert not outcome(unconfirmed).passed and "at smaller sizes" in outcome(unconfirmed).detail
    assert DERIVED in unconfirmed.notes
    confirmed = SanitizedJudge(passing(), scripted(crash, crash)).judge(large, submission(), CUDA)
    assert confirmed.status is Status.CRASHED
    assert confirmed.task_hash == large.task_hash


def test_memcheck_decides_where_it_finds_a_fault() -> None:
    simulated = scripted((Status.PASSED, (CLEAN,)))
    fault = CheckOutcome(check="memcheck", passed=False, detail="k: write")
    memchecked = scripted((Status.CRASHED, (fault,)))
    verdict = SanitizedJudge(passing(), simulated, memchecked).judge(task(), submission(), CUDA)
    assert verdict.status is Status.CRASHED
    assert [c.check for c in verdict.checks] == ["memcheck", "sanitizer"]


# --- compute-sanitizer

REPORT = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at affine_kernel(float *, const float *, int)+0x190 in /tmp/x/kernels/affine.cu:6
=========     by thread (96,0,0) in block (1,0,0)
=========     Access to 0x7f2a8a000240 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f2a8a000000 of size 576 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========
========= ERROR SUMMARY: 1 error
"""


def test_a_memcheck_report_becomes_one_line() -> None:
    assert memcheck.read_report(REPORT, ["kernels/affine.cu"]) == (
        "kernels/affine.cu:6 in affine_kernel: write of 4 bytes outside global memory, "
        "by thread (96,0,0) in block (1,0,0): 1 bytes after the nearest allocation"
    )
    without_lines = REPORT.replace(" in /tmp/x/kernels/affine.cu:6", "")
    assert memcheck.read_report(without_lines).startswith(
        "affine_kernel: write of 4 bytes outside global memory"
    )
    assert memcheck.read_report("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n") is None


def test_memcheck_is_found_on_the_path_and_starts_the_candidate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    tool = tmp_path / memcheck.NAME
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert memcheck.find() == str(tool)
    spec = instrumented(
        Instrument.MEMCHECK, RunnerSpec("the candidate", Device.CUDA, ()), JobFolder(tmp_path)
    )
    assert spec.launcher[:3] == (str(tool), "--tool", "memcheck")
    assert spec.writable == (str(tmp_path / "reports"),)
    assert ("PYTORCH_NO_CUDA_MEMORY_CACHING", "1") in spec.environment
