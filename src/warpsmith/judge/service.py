"""The judge as others see it: a task and a submission in, one verdict out."""

import contextlib
import errno
import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from warpsmith.errors import InfrastructureError, TaskRefusedError, WarpsmithError
from warpsmith.judge.job import ENTRY, JobFolder, RefereeJob, RefereeSetup
from warpsmith.judge.verdict import COMPILE_STATUS, failed
from warpsmith.sandbox import python_paths
from warpsmith.store.files import disk_full, refused, write_atomic
from warpsmith.store.paths import cache_root
from warpsmith.store.scratch import ScratchFolder
from warpsmith.types import (
    CompileResult,
    CompileStatus,
    Device,
    Job,
    JobOutcome,
    JobResult,
    Phase,
    Submission,
    Target,
    Task,
    Verdict,
)
from warpsmith.types.protocols import Compiler, GpuPool, JudgeSettings, Sandbox

PROGRESS_PERIOD_S = 0.2
Progress = Callable[[Phase, str], None]


class LocalJudge:
    """Compiles here, then has the pool run a referee process on a job folder.

    The referee and the candidate's empty process start while the submission compiles; with `ahead`, those of the
    next judgement start as soon as one has ended. `progress` is told each phase as it begins. `scratch` is where job
    folders are laid, the system's temporary folder by default. `close` ends what was started ahead; so does the end
    of this process.
    """

    def __init__(
        self,
        pool: GpuPool,
        compiler: Compiler,
        sandbox: Sandbox,
        *,
        arch: str = "",
        ahead: bool = False,
        scratch: Path | None = None,
        progress: Progress | None = None,
    ):
        self._pool, self._compiler, self._sandbox = pool, compiler, sandbox
        self._arch = arch
        self._ahead = ahead
        self._scratch = scratch
        self._progress = progress or (lambda phase, what: None)
        self._spare: Spare | None = None

    def prepare(self, device: Device) -> None:
        """Start the next judgement's processes now, unless they are there already."""
        if self._spare is not None and not self._spare.fits(device):
            self.close()
        if self._spare is None:
            self._spare = Spare(self._pool, self._sandbox, device, self._scratch)

    def judge(self, task: Task, submission: Submission, settings: JudgeSettings) -> Verdict:
        """One judgement. Raises InfrastructureError where there is nothing to compile with or nowhere to write."""
        self.prepare(settings.device)
        spare, self._spare = self._spare, None
        with contextlib.closing(spare):
            verdict = self._judge(spare, task, submission, settings)
        if self._ahead:
            self.prepare(settings.device)
        return verdict

    def close(self) -> None:
        """End what was started ahead."""
        if self._spare is not None:
            self._spare.close()
            self._spare = None

    def _judge(self, spare: "Spare", task: Task, submission: Submission, settings: JudgeSettings) -> Verdict:
        self._progress(Phase.COMPILE, "compiling")
        arch = self._arch if settings.device is Device.CUDA else ""
        built = self._compiler.build(submission, Target(device=settings.device, arch=arch))
        if built.status is not CompileStatus.OK:
            return _not_built(built, task, submission, settings)
        _lay_out(spare.folder, task, submission, settings, built)
        result = self._run(spare, settings)
        verdict = _read_verdict(spare.folder, result)
        if verdict is None:
            return failed(
                _lost(result, spare.folder.root), Phase.ADMISSION, compile=built, settings=settings,
                task_hash=task.task_hash, submission_hash=submission.submission_hash,
            )  # fmt: skip
        return verdict.model_copy(update={"compile": built})

    def _run(self, spare: "Spare", settings: JudgeSettings) -> JobResult:
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(spare.folder.progress, done), daemon=True)
        watcher.start()
        try:
            return spare.standby.run(settings.timeout_s)
        finally:
            done.set()
            watcher.join()

    def _watch(self, path: Path, done: threading.Event) -> None:
        seen = ""
        while not done.wait(PROGRESS_PERIOD_S):
            text = path.read_text() if path.exists() else ""
            phase, _, what = text.partition("\t")
            if what and text != seen:
                seen = text
                self._progress(Phase(phase), what)


class Spare:
    """A fresh job folder and the processes that wait in it. Raises InfrastructureError where one cannot be had."""

    def __init__(self, pool: GpuPool, sandbox: Sandbox, device: Device, scratch: Path | None):
        self.device = device
        self._scratch = ScratchFolder("warpsmith-judge-", scratch)
        root = self._scratch.path
        self.folder = JobFolder(root)
        caches = cache_root()
        compile_cache = caches / "torch-compile"
        setup = RefereeSetup(
            device=device,
            sandbox=sandbox.name,
            baseline_dir=str(caches / "baselines"),
            compile_cache_dir=str(compile_cache),
            own_paths=python_paths(),
        )
        try:
            for path in (self.folder.candidate, self.folder.share, self.folder.baseline, compile_cache):
                path.mkdir(parents=True, exist_ok=True)
                path.chmod(0o755)
        except OSError as error:
            raise refused("lay out a judgement in", root, error) from error
        write_atomic(self.folder.setup, setup.model_dump_json())
        # The job's own time limit counts from `run`; waiting has none.
        self.standby = pool.standby(Job(entry=ENTRY, folder=str(root), device=device, timeout_s=0.0))

    def fits(self, device: Device) -> bool:
        """True where it waits for a job on `device`."""
        return self.device is device and self.standby.alive()

    def close(self) -> None:
        """End the processes and remove the folder."""
        self.standby.close()
        self._scratch.remove()


def _lay_out(
    folder: JobFolder, task: Task, submission: Submission, settings: JudgeSettings, built: CompileResult
) -> None:
    """Fill a fresh folder: the agent's own directory is never judged."""
    job = RefereeJob(
        task_hash=task.task_hash,
        task_name=task.name,
        submission_hash=submission.submission_hash,
        settings=settings,
    )
    try:
        shutil.copytree(built.build_dir, folder.candidate, dirs_exist_ok=True)
        for name, text in submission.files.items():
            path = folder.candidate / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        folder.task.write_text(task.code)
        (folder.baseline / "task.py").write_text(task.code)
        for part in (folder.candidate, folder.baseline):
            _open_to_others(part)
    except OSError as error:
        raise refused("lay out a judgement in", folder.root, error) from error
    write_atomic(folder.job, job.model_dump_json())


def _open_to_others(folder: Path) -> None:
    """Readable by the user that runners run as, whatever this process's umask; what is above it stays closed."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _read_verdict(folder: JobFolder, result: JobResult) -> Verdict | None:
    """The referee's one record; anything but a normal end with a whole record is none."""
    if result.outcome is not JobOutcome.COMPLETED or not folder.verdict.is_file():
        return None
    try:
        return Verdict.model_validate_json(folder.verdict.read_text())
    except (ValidationError, json.JSONDecodeError, UnicodeDecodeError):
        return None


def _lost(result: JobResult, root: Path) -> WarpsmithError:
    """Why there is no record."""
    if result.outcome is JobOutcome.COMPLETED:
        # a referee that returns has written its record: only the task's own code can have ended it before
        return TaskRefusedError("the task ended the judge's process (exit status 0)")
    if disk_full(root):
        return refused("judge in", root, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    tail = result.log_tail.strip().splitlines()
    why = f": {tail[-1][:300]}" if tail else ""
    return InfrastructureError(f"the judge's process {result.outcome.value.replace('_', ' ')}{why}")


def _not_built(built: CompileResult, task: Task, submission: Submission, settings: JudgeSettings) -> Verdict:
    lines = [line for line in built.log.splitlines() if line.strip()]
    return Verdict(
        status=COMPILE_STATUS[built.status],
        device=settings.device,
        rules=settings.rules,
        task_hash=task.task_hash,
        submission_hash=submission.submission_hash,
        phase=Phase.COMPILE,
        detail=lines[0][:500] if lines else f"the build {built.status.value}",
        compile=built,
    )
