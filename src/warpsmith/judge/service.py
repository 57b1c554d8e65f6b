"""The judge as others see it: a task and a submission in, one verdict out."""

import contextlib
import errno
import json
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from warpsmith.errors import InfrastructureError, TaskRefusedError, WarpsmithError
from warpsmith.judge import task_mark
from warpsmith.judge.instruments import watched as instruments
from warpsmith.judge.job import Instrument, JobFolder
from warpsmith.judge.runner.forkserver import ForkServer
from warpsmith.judge.spare import Spare
from warpsmith.judge.verdict import COMPILE_STATUS, failed
from warpsmith.store.files import disk_full, refused
from warpsmith.types import (
    CompileResult,
    CompileStatus,
    Device,
    JobOutcome,
    JobResult,
    Phase,
    Submission,
    Task,
    Verdict,
)
from warpsmith.types.protocols import Compiler, GpuPool, JudgeSettings, Sandbox

PROGRESS_PERIOD_S = 0.2
NO_ISOLATION = "none"
HOLD_S = 5.0
"""A GPU waits at most this long for a compiler."""
Progress = Callable[[Phase, str], None]
_ERROR = re.compile(r"\berror\b", re.IGNORECASE)


class LocalJudge:
    """Compiles here, then has the pool run a referee process on a job folder.

    The referee and the candidate's empty process start while the submission compiles, and the referee checks the
    task meanwhile; where compiling takes more than `hold_s` seconds the GPU is given back until it has ended. With
    `ahead`, the next judgement's processes start as soon as one has ended. `progress` is told each phase as it
    begins. `scratch` is where job folders are laid, the system's temporary folder by default. `close` ends what was
    started ahead; so does the end of this process. `instrument` watches the candidate. `forks`: what its
    runners are forked from; without it every one is started anew.
    """

    def __init__(
        self,
        pool: GpuPool,
        compiler: Compiler,
        sandbox: Sandbox,
        *,
        arch: str = "",
        ahead: bool = False,
        hold_s: float = HOLD_S,
        scratch: Path | None = None,
        progress: Progress | None = None,
        instrument: Instrument = Instrument.NONE,
        forks: ForkServer | None = None,
    ):
        self._pool, self._compiler, self._sandbox = pool, compiler, sandbox
        self._arch = arch
        self._ahead = ahead
        self._isolated = sandbox.name != NO_ISOLATION
        self._hold_s = hold_s
        self._scratch = scratch
        self._progress = progress or (lambda phase, what: None)
        self._instrument = instrument
        self._forks = forks
        self._spare: Spare | None = None
        self._ending: _Ending | None = None

    def prepare(self, device: Device) -> None:
        """Start the next judgement's processes now, unless they are there already."""
        if self._spare is not None and not self._spare.fits(device):
            self.close()
        if self._spare is None:
            self._spare = Spare(
                self._pool,
                self._sandbox,
                device,
                self._scratch,
                self._instrument,
                self._forks.address() if self._forks else "",
            )

    def judge(self, task: Task, submission: Submission, settings: JudgeSettings) -> Verdict:
        """One judgement. Raises InfrastructureError where there is nothing to compile with or nowhere to write."""
        self.prepare(settings.device)
        spare, self._spare = self._spare, None
        try:
            verdict = self._judge(spare, task, submission, settings)
        finally:
            self._end(spare)
        if self._ahead:
            self.prepare(settings.device)
        return verdict

    def close(self) -> None:
        """End what was started ahead, and wait until all that was started is gone."""
        if self._spare is not None:
            self._spare.close()
            self._spare = None
        self._await_ended()

    def _end(self, spare: Spare) -> None:
        """With `ahead` in the background: a process that held a GPU takes a tenth of a second to end."""
        if not self._ahead:
            spare.close()
            return
        self._await_ended()
        self._ending = _Ending(spare)

    def _await_ended(self) -> None:
        ending, self._ending = self._ending, None
        if ending is not None:
            ending.join()

    def _judge(self, spare: Spare, task: Task, submission: Submission, settings: JudgeSettings) -> Verdict:
        self._progress(Phase.COMPILE, "compiling")
        spare.lay_out(task, submission, settings)
        built = self._build(spare, task, submission, settings)
        if built.status is not CompileStatus.OK:
            return not_built(built, task, submission, settings)
        if spare.closed:
            self.prepare(settings.device)
            spare, self._spare = self._spare, None
            with contextlib.closing(spare):
                spare.lay_out(task, submission, settings)
                return self._run(spare, task, submission, settings, built)
        return self._run(spare, task, submission, settings, built)

    def _build(
        self, spare: Spare, task: Task, submission: Submission, settings: JudgeSettings
    ) -> CompileResult:
        """The build; meanwhile `spare` checks the task, unless compiling takes so long that it would hold a GPU."""
        arch = self._arch if settings.device is Device.CUDA else ""
        spare.start(settings.timeout_s)
        slow = threading.Timer(self._hold_s, spare.close)
        slow.start()
        try:
            target = instruments.target(self._instrument, settings.device, arch)
            return self._compiler.build(submission, target, task)
        finally:
            slow.cancel()
            slow.join()

    def _run(
        self, spare: Spare, task: Task, submission: Submission, settings: JudgeSettings, built: CompileResult
    ) -> Verdict:
        spare.start(settings.timeout_s)
        spare.deliver(built)
        verdict = self._verdict(spare)
        if verdict is None:
            result = spare.result()
            return failed(
                _lost(result, spare.folder), Phase.ADMISSION, compile=built, settings=settings,
                task_hash=task.task_hash, submission_hash=submission.submission_hash,
            )  # fmt: skip
        verdict = instruments.told(self._instrument, verdict, spare.folder, submission)
        return verdict.model_copy(update={"compile": built})

    def _verdict(self, spare: Spare) -> Verdict | None:
        """The referee's one record; anything but a normal end with a whole record is none.

        Where candidates are isolated only the referee can have written a record: its end need not be awaited.
        """
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(spare.folder.progress, done), daemon=True)
        watcher.start()
        try:
            if not (self._ahead and self._isolated and spare.concluded()):
                result = spare.result()
                if result.outcome is not JobOutcome.COMPLETED or not spare.folder.verdict.is_file():
                    return None
            return _read(spare.folder)
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


class _Ending:
    """A judgement's processes and folder, being removed."""

    def __init__(self, spare: Spare):
        self._error: InfrastructureError | None = None
        self._thread = threading.Thread(target=self._close, args=(spare,))
        self._thread.start()

    def join(self) -> None:
        """Waits until they are gone. Raises InfrastructureError where they do not go."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _close(self, spare: Spare) -> None:
        try:
            spare.close()
        except InfrastructureError as error:
            self._error = error


def _read(folder: JobFolder) -> Verdict | None:
    try:
        return Verdict.model_validate_json(folder.verdict.read_text())
    except (ValidationError, json.JSONDecodeError, UnicodeDecodeError):
        return None


def _lost(result: JobResult, folder: JobFolder) -> WarpsmithError:
    """Why there is no record."""
    if folder.verdict.exists():
        return InfrastructureError("the judge's record cannot be read", hint="reinstall warpsmith")
    if result.outcome is JobOutcome.COMPLETED:
        # a referee that returns has written its record: only the task's own code can have ended it before
        return TaskRefusedError("the task ended the judge's process (exit status 0)")
    if fault := task_mark.fault(folder.root, result):
        return fault
    if disk_full(folder.root):
        return refused("judge in", folder.root, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    tail = result.log_tail.strip().splitlines()
    why = f": {tail[-1][:300]}" if tail else ""
    return InfrastructureError(f"the judge's process {result.outcome.value.replace('_', ' ')}{why}")


def not_built(built: CompileResult, task: Task, submission: Submission, settings: JudgeSettings) -> Verdict:
    """The verdict on what does not build."""
    return Verdict(
        status=COMPILE_STATUS[built.status],
        device=settings.device,
        rules=settings.rules,
        task_hash=task.task_hash,
        submission_hash=submission.submission_hash,
        phase=Phase.COMPILE,
        detail=_headline(built.log)[:500] or f"the build {built.status.value}",
        compile=built,
    )


def _headline(log: str) -> str:
    """The line for a person: the first that speaks of an error, since compilers name the function before."""
    lines = [line for line in log.splitlines() if line.strip()]
    return next((line for line in lines if _ERROR.search(line)), lines[0] if lines else "")
