"""`judge --ncu` on the simulator, with programs that stand in for ncu: the real job, sandbox and runner."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from tests.judge.instruments.test_ncu_table import LOG, SCALE
from tests.judge.samples import MODEL_NEW, submission, task

from warpsmith.compile import LocalCompiler
from warpsmith.gpu.local import LocalPool
from warpsmith.gpu.pool import WorkerPool
from warpsmith.judge.instruments import ncu
from warpsmith.judge.instruments.ncu import NcuProfiler
from warpsmith.judge.instruments.ncu_job import NOT_PERMITTED
from warpsmith.judge.instruments.ncu_table import find, read_table
from warpsmith.rollout.scripted import scripted_verdict
from warpsmith.sandbox import best_available
from warpsmith.sandbox.process import Tree
from warpsmith.types import Device, ProfileReport, Status, Submission, Target
from warpsmith.types.protocols import JudgeSettings

RUN = 'while [ "$1" != --log-file ]; do shift; done; log="$2"; shift 2; "$@" || exit $?\n'
MEASURES = f"{RUN}cat >\"$log\" <<'END'\n{LOG}END\n"
DENIED = (
    f"{RUN}echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance "
    'Counters on the target device 0.\' >"$log"; exit 1\n'
)
Profile = Callable[..., ProfileReport]


@pytest.fixture
def profile(tmp_path: Path, caches: Path, pool: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> Profile:
    """`profile(script, submission)`: with a shell script as the ncu on PATH."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}")
    tool = tmp_path / "bin" / "ncu"
    tool.parent.mkdir()
    compiler, isolation = LocalCompiler(caches / "compile"), best_available().name

    def run(script: str, given: Submission | None = None, timeout_s: float = 100.0) -> ProfileReport:
        tool.write_text("#!/bin/sh\n" + script)
        tool.chmod(0o755)
        profiler = NcuProfiler(pool, compiler, Target(device=Device.SIM), isolation, timeout_s=timeout_s)
        return profiler.profile(task(), given or submission())

    return run


def test_the_kernels_that_ncu_measured(profile: Profile) -> None:
    found = profile(MEASURES)
    assert found.problem == ""
    assert found.kernels == read_table(LOG) and found.kernels[0].kernel == SCALE


def test_the_toolkits_ncu_comes_before_that_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cuda", "other"):
        tool = tmp_path / name / "bin" / "ncu"
        tool.parent.mkdir(parents=True)
        tool.write_text("#!/bin/sh\n")
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/other/bin")
    monkeypatch.setenv("CUDA_HOME", f"{tmp_path}/cuda")
    assert find() == f"{tmp_path}/cuda/bin/ncu"
    monkeypatch.setenv("CUDA_HOME", f"{tmp_path}/nowhere")
    monkeypatch.delenv("CUDA_PATH", raising=False)
    assert find() == f"{tmp_path}/other/bin/ncu"


def test_counters_that_are_not_permitted_give_a_hint(profile: Profile) -> None:
    assert profile(DENIED) == ProfileReport(problem=NOT_PERMITTED)


def test_an_ncu_that_hangs_is_ended_with_all_that_it_started(profile: Profile, tmp_path: Path) -> None:
    begun = time.monotonic()
    found = profile("sleep 4321 & wait\n", timeout_s=1.0)
    assert found.problem == "it did not end within 1 s, so ncu wrote no table"
    assert time.monotonic() - begun < 90
    assert not [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "4321"]]


def test_an_ncu_that_crashes_says_how(profile: Profile) -> None:
    assert (
        profile("echo oh dear; exit 9\n").problem
        == "ncu exited with status 9: the last line printed: oh dear"
    )


def test_a_log_that_is_no_table_is_no_profile(profile: Profile) -> None:
    quick = 'while [ "$1" != --log-file ]; do shift; done; '
    assert "'s table cannot be read: " in profile(quick + 'echo "a,b" >"$2"\n').problem
    # what the submission may have put there instead
    assert profile(quick + 'ln -s /etc/passwd "$2"\n').problem == "ncu saw no kernel"


def test_a_submission_that_raises_is_the_profiles_problem_alone(profile: Profile) -> None:
    raising = submission(
        model_new=MODEL_NEW.replace("out = torch", "raise RuntimeError('no')\n        out = torch")
    )
    assert (
        profile(MEASURES, raising).problem
        == "ncu exited with status 1: the last line printed: RuntimeError: no"
    )


def test_without_ncu_a_hint() -> None:
    profiler = NcuProfiler(LocalPool(Tree), LocalCompiler(), Target(device=Device.SIM), "none", tool=None)
    assert profiler.profile(task(), submission()).problem == ncu.MISSING


@pytest.mark.parametrize(
    ("status", "said"),
    [(Status.WRONG, "a submission that is wrong is not profiled"), (Status.PASSED, ncu.NO_GPU)],
)
def test_what_is_not_profiled(status: Status, said: str) -> None:
    verdict = scripted_verdict(task(), submission(), JudgeSettings(device=Device.SIM), status)
    profiler = NcuProfiler(LocalPool(Tree), LocalCompiler(), Target(device=Device.SIM), "none")
    assert profiler.after(verdict, task(), submission()) == ProfileReport(problem=said)
