"""Processes started ahead of a judgement, in the folder that they will judge in."""

import contextlib
import json
import shutil
import threading
from pathlib import Path

from warpsmith.errors import InfrastructureError
from warpsmith.gpu.go import GO
from warpsmith.judge import task_mark
from warpsmith.judge.job import ENTRY, Instrument, JobFolder, RefereeJob, RefereeSetup
from warpsmith.sandbox import python_paths
from warpsmith.store.files import refused, write_atomic
from warpsmith.store.paths import cache_root
from warpsmith.store.scratch import ScratchFolder
from warpsmith.types import CompileResult, Device, Job, JobResult, Submission, Task
from warpsmith.types.protocols import GpuPool, JudgeSettings, Sandbox

VERDICT_POLL_S = 0.002
END_S = 5.0
"""How long a referee may take to end, checking a task or letting go of a GPU, before it is killed."""


def referee_setup(
    device: Device, sandbox: Sandbox, instrument: Instrument = Instrument.NONE, forks: str = ""
) -> RefereeSetup:
    """What a referee on this machine is told before there is anything to judge: where its caches are, for one."""
    caches = cache_root()
    return RefereeSetup(
        device=device,
        sandbox=sandbox.name,
        baseline_dir=str(caches / "baselines"),
        compile_cache_dir=str(caches / "torch-compile"),
        observer_dir=str(caches / "observer"),
        own_paths=python_paths(),
        instrument=instrument,
        forks=forks,
    )


class Spare:
    """A fresh job folder and the processes that wait in it: laid out, started, given the build, asked for the result.

    Raises InfrastructureError where one cannot be had.
    """

    def __init__(
        self,
        pool: GpuPool,
        sandbox: Sandbox,
        device: Device,
        scratch: Path | None,
        instrument: Instrument = Instrument.NONE,
        forks: str = "",
    ):
        self.device = device
        self.closed = False
        self._scratch = ScratchFolder("warpsmith-judge-", scratch)
        root = self._scratch.path
        self.folder = JobFolder(root)
        setup = referee_setup(device, sandbox, instrument, forks)
        compiled = Path(setup.compile_cache_dir)
        try:
            for path in (self.folder.candidate, self.folder.share, self.folder.baseline, compiled):
                path.mkdir(parents=True, exist_ok=True)
                path.chmod(0o755)
        except OSError as error:
            raise refused("lay out a judgement in", root, error) from error
        write_atomic(self.folder.setup, setup.model_dump_json())
        # The job's own time limit counts from `start`; waiting has none.
        self._standby = pool.standby(Job(entry=ENTRY, folder=str(root), device=device, timeout_s=0.0))
        self._thread: threading.Thread | None = None
        self._result: JobResult | None = None
        self._error: InfrastructureError | None = None
        self._delivered = False

    def fits(self, device: Device) -> bool:
        """True where it waits for a job on `device`."""
        return self.device is device and self._standby.alive()

    def lay_out(self, task: Task, submission: Submission, settings: JudgeSettings) -> None:
        """All but what is compiled. The folder is fresh: the agent's own directory is never judged."""
        job = RefereeJob(
            task_hash=task.task_hash,
            task_name=task.name,
            submission_hash=submission.submission_hash,
            settings=settings,
        )
        try:
            for name, text in submission.files.items():
                path = self.folder.candidate / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            self.folder.task.write_text(task.code)
            task_mark.lay(self.folder.root)
            (self.folder.baseline / "task.py").write_text(task.code)
            for part in (self.folder.candidate, self.folder.baseline):
                _open_to_others(part)
        except OSError as error:
            raise refused("lay out a judgement in", self.folder.root, error) from error
        write_atomic(self.folder.job, job.model_dump_json())

    def start(self, timeout_s: float) -> None:
        """Let the referee go on as soon as its device is free, unless it was started already. Waits for nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, args=(timeout_s,), daemon=True)
            self._thread.start()

    def deliver(self, built: CompileResult) -> None:
        """Complete the candidate's folder."""
        try:
            shutil.copytree(built.build_dir, self.folder.candidate, dirs_exist_ok=True)
            _open_to_others(self.folder.candidate)
            write_atomic(self.folder.built, json.dumps([kernel.kernel for kernel in built.kernels]))
            self._delivered = True
        except OSError as error:
            raise refused("lay out a judgement in", self.folder.root, error) from error

    def concluded(self) -> bool:
        """Waits until the verdict is there, or the referee has ended without one; True for the former.

        The verdict is written when no process of the candidate is left; the GPU is handed on when the referee has
        ended too.
        """
        while self._thread.is_alive() and not self.folder.verdict.exists():
            self._thread.join(VERDICT_POLL_S)
        return self.folder.verdict.exists()

    def result(self) -> JobResult:
        """How the referee ended; its process tree is gone then. Raises InfrastructureError where it had no device."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._result

    def close(self) -> None:
        """End the processes and remove the folder; may be called again."""
        self.closed = True
        self._let_end()
        self._standby.close()
        if self._thread is not None:
            self._thread.join()
        self._scratch.remove()

    def _let_end(self) -> None:
        """A referee that has nothing left to do ends by itself. Killed, it would be one that may have left its device
        in disorder: the pool then tests it, for seconds, and loads a fresh worker."""
        if self._thread is None or not (self.folder.root / GO).exists():
            return
        if not self._delivered:
            with contextlib.suppress(OSError):
                self.folder.abandoned.touch()
        if not self._delivered or self.folder.verdict.exists():
            self._thread.join(END_S)

    def _work(self, timeout_s: float) -> None:
        try:
            self._result = self._standby.run(timeout_s)
        except InfrastructureError as error:
            self._error = error


def _open_to_others(folder: Path) -> None:
    """Readable by the user that runners run as, whatever this process's umask; what is above it stays closed."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
