"""The judge as others see it: a task and a submission in, one verdict out."""

import json
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from warpsmith.errors import InfrastructureError, TaskRefusedError, WarpsmithError
from warpsmith.judge.job import ENTRY, JobFolder, RefereeJob
from warpsmith.judge.verdict import COMPILE_STATUS, failed
from warpsmith.sandbox import python_paths
from warpsmith.store.files import refused, write_atomic
from warpsmith.store.paths import cache_root
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
    """Compiles here, then has the pool run a referee process on the job's folder.

    `progress` is told each phase as it begins. `scratch` is where job folders are laid; the system's temporary
    folder by default.
    """

    def __init__(
        self,
        pool: GpuPool,
        compiler: Compiler,
        sandbox: Sandbox,
        *,
        arch: str = "",
        scratch: Path | None = None,
        progress: Progress | None = None,
    ):
        self._pool, self._compiler, self._sandbox = pool, compiler, sandbox
        self._arch = arch
        self._scratch = scratch
        self._progress = progress or (lambda phase, what: None)

    def judge(self, task: Task, submission: Submission, settings: JudgeSettings) -> Verdict:
        """One judgement. Raises InfrastructureError where there is nothing to compile with or nowhere to write."""
        identity = {
            "task_hash": task.task_hash,
            "submission_hash": submission.submission_hash,
            "settings": settings,
        }
        self._progress(Phase.COMPILE, "compiling")
        arch = self._arch if settings.device is Device.CUDA else ""
        built = self._compiler.build(submission, Target(device=settings.device, arch=arch))
        if built.status is not CompileStatus.OK:
            return _not_built(built, task, submission, settings)
        try:
            root = Path(tempfile.mkdtemp(prefix="warpsmith-judge-", dir=self._scratch))
        except OSError as error:
            raise refused(
                "create a folder in", self._scratch or Path(tempfile.gettempdir()), error
            ) from error
        try:
            folder = self._lay_out(root, task, submission, settings, built)
            result = self._run(folder, settings)
            verdict = _read_verdict(folder, result)
            if verdict is None:
                return failed(_lost(result), Phase.ADMISSION, compile=built, **identity)
            return verdict.model_copy(update={"compile": built})
        finally:
            shutil.rmtree(root, ignore_errors=True)

    def _lay_out(
        self, root: Path, task: Task, submission: Submission, settings: JudgeSettings, built: CompileResult
    ) -> JobFolder:
        """A fresh folder: the agent's own directory is never judged."""
        folder = JobFolder(root)
        caches = cache_root()
        compile_cache = caches / "torch-compile"
        job = RefereeJob(
            task_hash=task.task_hash,
            task_name=task.name,
            submission_hash=submission.submission_hash,
            settings=settings,
            sandbox=self._sandbox.name,
            baseline_dir=str(caches / "baselines"),
            compile_cache_dir=str(compile_cache),
            own_paths=python_paths(),
        )
        try:
            for path in (folder.candidate, folder.share, folder.baseline, compile_cache):
                path.mkdir(parents=True, exist_ok=True)
            compile_cache.chmod(0o777)
            shutil.copytree(built.build_dir, folder.candidate, dirs_exist_ok=True)
            for name, text in submission.files.items():
                path = folder.candidate / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            folder.task.write_text(task.code)
            (folder.baseline / "task.py").write_text(task.code)
        except OSError as error:
            raise refused("lay out a judgement in", root, error) from error
        write_atomic(folder.job, job.model_dump_json())
        return folder

    def _run(self, folder: JobFolder, settings: JudgeSettings) -> JobResult:
        job = Job(entry=ENTRY, folder=str(folder.root), device=settings.device, timeout_s=settings.timeout_s)
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(folder.progress, done), daemon=True)
        watcher.start()
        try:
            return self._pool.run(job)
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


def _read_verdict(folder: JobFolder, result: JobResult) -> Verdict | None:
    """The referee's one record; anything but a normal end with a whole record is none."""
    if result.outcome is not JobOutcome.COMPLETED or not folder.verdict.is_file():
        return None
    try:
        return Verdict.model_validate_json(folder.verdict.read_text())
    except (ValidationError, json.JSONDecodeError, UnicodeDecodeError):
        return None


def _lost(result: JobResult) -> WarpsmithError:
    """Why there is no record."""
    if result.outcome is JobOutcome.COMPLETED:
        # a referee that returns has written its record: only the task's own code can have ended it before
        return TaskRefusedError("the task ended the judge's process (exit status 0)")
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
