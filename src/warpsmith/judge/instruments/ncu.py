"""`judge --ncu`: what Nsight Compute measures of a submission's kernels, asked for after its verdict."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from warpsmith.errors import InfrastructureError
from warpsmith.judge.instruments import ncu_table
from warpsmith.judge.instruments.ncu_request import ENTRY, ProfileRequest
from warpsmith.judge.job import JobFolder
from warpsmith.sandbox import python_paths
from warpsmith.store.files import refused, write_atomic
from warpsmith.store.scratch import ScratchFolder
from warpsmith.types import (
    CompileStatus,
    Device,
    Job,
    JobOutcome,
    JobResult,
    ProfileReport,
    Status,
    Submission,
    Target,
    Task,
    Verdict,
)
from warpsmith.types.protocols import Compiler, GpuPool

MISSING = f"{ncu_table.NAME} is not installed (it comes with the CUDA toolkit; set CUDA_HOME)"
NO_GPU = "the simulator has no counters: profile on a GPU"
TIMEOUT_S = 300.0
DRAWING_S = 120.0
"""Beside it: drawing weights and inputs, and ending the processes."""
_RIGHT = frozenset({Status.PASSED, Status.UNSTABLE})


@dataclass(frozen=True)
class NcuProfiler:
    """Runs ncu on the pool's GPU, in a process tree of its own that is gone when `profile` returns.

    `isolation` names the sandbox of what ncu watches: that of the judgement.
    """

    pool: GpuPool
    compiler: Compiler
    target: Target
    isolation: str
    tool: str | None = field(default_factory=ncu_table.find)
    """Path of ncu; None: it is not installed."""
    timeout_s: float = TIMEOUT_S

    def after(self, verdict: Verdict, task: Task, submission: Submission) -> ProfileReport:
        """The profile of a submission that was judged so; one without kernels says why. Never raises for either."""
        if verdict.status not in _RIGHT:
            return ProfileReport(problem=f"a submission that is {verdict.status.value} is not profiled")
        if self.target.device is Device.SIM:
            return ProfileReport(problem=NO_GPU)
        return self.profile(task, submission)

    def profile(self, task: Task, submission: Submission) -> ProfileReport:
        """The same for a submission that is known to be right, on any device."""
        if self.tool is None:
            return ProfileReport(problem=MISSING)
        try:
            scratch = ScratchFolder("warpsmith-ncu-")
            try:
                return self._in(JobFolder(scratch.path), self.tool, task, submission)
            finally:
                scratch.remove()
        except InfrastructureError as error:
            return ProfileReport(problem=str(error))

    def _in(self, folder: JobFolder, tool: str, task: Task, submission: Submission) -> ProfileReport:
        built = self.compiler.build(submission, self.target, task)
        if built.status is not CompileStatus.OK or built.build_dir is None:
            return ProfileReport(problem=f"the build {built.status.value}")
        _lay_out(folder, Path(built.build_dir), task, submission)
        request = ProfileRequest(
            device=self.target.device, tool=tool, sandbox=self.isolation,
            own_paths=python_paths(), timeout_s=self.timeout_s,
        )  # fmt: skip
        write_atomic(folder.root / "profile.json", request.model_dump_json())
        job = Job(
            entry=ENTRY,
            folder=str(folder.root),
            device=self.target.device,
            timeout_s=self.timeout_s + DRAWING_S,
        )
        return _read(folder.root / "report.json", self.pool.run(job))


def _lay_out(folder: JobFolder, build: Path, task: Task, submission: Submission) -> None:
    """What the job reads; `candidate/` and `share/` readable by the user that submissions run as."""
    try:
        for path in (folder.candidate, folder.share, folder.reports):
            path.mkdir()
        for name, text in submission.files.items():
            path = folder.candidate / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        shutil.copytree(build, folder.candidate, dirs_exist_ok=True)
        folder.task.write_text(task.code)
        for path in (folder.share, folder.candidate, *folder.candidate.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
    except OSError as error:
        raise refused("lay out a profile in", folder.root, error) from error


def _read(path: Path, result: JobResult) -> ProfileReport:
    if result.outcome is not JobOutcome.COMPLETED or not path.is_file():
        tail = result.log_tail.strip().splitlines()
        why = f": {tail[-1][:300]}" if tail else ""
        return ProfileReport(problem=f"the profiler's process {result.outcome.value.replace('_', ' ')}{why}")
    try:
        return ProfileReport.model_validate_json(path.read_text())
    except ValidationError:
        return ProfileReport(problem="the profiler's record cannot be read")
