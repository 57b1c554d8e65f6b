"""Checks tasks by way of the pool: files in, one record a task out.

job/
  batch.json    CheckBatch
  N/            the N-th task: its code, what it printed, its record
  rows.jsonl    TaskCheck, one line a task, in order, as they come

The job's process loads torch once and forks for every task before it has touched the GPU, so that each task has a
fresh process and a fresh CUDA context for a third of a second.
"""

import os
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from warpsmith.errors import InfrastructureError
from warpsmith.store.files import refused, write_atomic
from warpsmith.store.paths import cache_root
from warpsmith.types import (
    CheckSettings,
    Device,
    Fitness,
    Job,
    JobOutcome,
    JobResult,
    Purpose,
    Record,
    Task,
    TaskCheck,
    Weakness,
)
from warpsmith.types.protocols import GpuPool

ENTRY = "warpsmith.judge.check:run"
TIMEOUT_S = 180.0
"""One task's check."""
BATCH = 32
"""Tasks that one job checks: a GPU is held for no longer."""
START_S = 120.0
OURS = 70
"""Exit status of a task's process that ended by a fault which is not the task's."""
_POLL_S = 0.1


class CheckBatch(Record):
    """What one job is asked."""

    tasks: tuple[Task, ...]
    settings: CheckSettings
    timeout_s: float
    cache_dir: str


class TaskChecker:
    """Has a pool check tasks. `scratch` is where job folders are laid; the temporary folder by default."""

    def __init__(self, pool: GpuPool, *, scratch: Path | None = None):
        self._pool, self._scratch = pool, scratch

    def check(
        self,
        tasks: Sequence[Task],
        settings: CheckSettings,
        *,
        timeout_s: float = TIMEOUT_S,
        told: Callable[[TaskCheck], None] = lambda row: None,
    ) -> list[TaskCheck]:
        """One record a task, in order; `told` gets each as it comes (from another thread).

        A task whose check was lost has one that says `infrastructure`, and the others are checked all the same.
        Raises InfrastructureError where the pool cannot run jobs.
        """
        rows: list[TaskCheck] = []

        def take(row: TaskCheck) -> None:
            rows.append(row)
            told(row)

        barren = 0
        while len(rows) < len(tasks):
            wanted = tasks[len(rows) : len(rows) + BATCH]
            known = len(rows)
            result = self._run(CheckBatch(
                tasks=tuple(wanted), settings=settings, timeout_s=timeout_s,
                cache_dir=str(cache_root() / "check"),
            ), take)  # fmt: skip
            if len(rows) - known < len(wanted):
                # One task may have ended the whole job; two in a row that gave nothing are the job's own fault.
                barren = barren + 1 if len(rows) == known else 0
                lost = _lost(result)
                if barren > 1:
                    raise lost
                take(infrastructure(tasks[len(rows)], settings, str(lost)))
        return rows

    def _run(self, batch: CheckBatch, take: Callable[[TaskCheck], None]) -> JobResult:
        try:
            root = Path(tempfile.mkdtemp(prefix="warpsmith-check-", dir=self._scratch))
        except OSError as error:
            raise refused(
                "create a folder in", self._scratch or Path(tempfile.gettempdir()), error
            ) from error
        try:
            write_atomic(root / "batch.json", batch.model_dump_json())
            job = Job(
                entry=ENTRY, folder=str(root), device=batch.settings.device,
                timeout_s=START_S + len(batch.tasks) * (batch.timeout_s + 5.0),
            )  # fmt: skip
            with _RowReader(root / "rows.jsonl", take):
                return self._pool.run(job)
        finally:
            shutil.rmtree(root, ignore_errors=True)


class _RowReader:
    """Reads the job's rows as they come, while the block runs, and what is left when it ends."""

    def __init__(self, path: Path, take: Callable[[TaskCheck], None]):
        self._path, self._take, self._read = path, take, 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._pass_on()

    def _watch(self) -> None:
        while not self._done.wait(_POLL_S):
            self._pass_on()

    def _pass_on(self) -> None:
        if self._path.exists():
            # A line counts once its newline is there.
            lines = self._path.read_text().split("\n")[:-1]
            for line in lines[self._read :]:
                self._read += 1
                self._take(TaskCheck.model_validate_json(line))


def infrastructure(task: Task, settings: CheckSettings, why: str) -> TaskCheck:
    """The record of a check that could not be made."""
    return _ended(task, settings, Fitness.INFRASTRUCTURE, why)


def _ended(
    task: Task, settings: CheckSettings, fitness: Fitness, why: str, seconds: float = 0.0
) -> TaskCheck:
    said = {"problems": (why,)} if fitness is Fitness.UNFIT else {"notes": (why,)}
    return TaskCheck(**identity(task, settings), fitness=fitness, seconds=round(seconds, 3), **said)


def identity(task: Task, settings: CheckSettings) -> dict[str, Any]:
    """The fields of a record that say what was asked."""
    return {
        "question": settings.question(task), "task_name": task.name, "task_hash": task.task_hash,
        "source": task.source, "revision": task.revision, "level": task.level, "problem_id": task.problem_id,
        "device": settings.device, "purpose": settings.purpose,
    }  # fmt: skip


def _lost(result: JobResult) -> InfrastructureError:
    tail = result.log_tail.strip().splitlines()
    why = f": {tail[-1][:300]}" if tail and result.outcome is not JobOutcome.COMPLETED else ""
    return InfrastructureError(f"the check's process {result.outcome.value.replace('_', ' ')}{why}")


# --- in the job's process


def run(folder: Path) -> None:
    """Checks the batch in `folder`, each task in a process forked from this one."""
    batch = CheckBatch.model_validate_json((folder / "batch.json").read_text())
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{batch.cache_dir}/inductor"
    os.environ["TRITON_CACHE_DIR"] = f"{batch.cache_dir}/triton"
    # Loaded here once for all tasks. Nothing may touch CUDA in this process: a fork could not use it then.
    from warpsmith.judge import check_task  # noqa: F401

    with (folder / "rows.jsonl").open("a") as rows:
        for number, task in enumerate(batch.tasks):
            row = _checked(task, batch, folder / str(number))
            rows.write(row.model_dump_json() + "\n")
            rows.flush()


def _checked(task: Task, batch: CheckBatch, folder: Path) -> TaskCheck:
    """One task's record, whatever becomes of its process."""
    folder.mkdir()
    record, begun = folder / "record.json", time.monotonic()
    pid = os.fork()
    if pid == 0:
        _child(task, batch.settings, folder, record)
    status = _wait(pid, batch.timeout_s)
    seconds = time.monotonic() - begun
    found = TaskCheck.model_validate_json(record.read_text()) if record.exists() else None
    if status == 0 and found is not None:
        return found
    if status == OURS:
        tail = (folder / "log").read_text(errors="replace").strip().splitlines()
        return infrastructure(task, batch.settings, tail[-1][:300] if tail else "the check failed")
    how, fitness = _how(status, batch)
    if found is None:
        return _ended(task, batch.settings, fitness, f"the check {how}", seconds)
    return _without_compile(found, f"does not run in torch.compile: it {how}", seconds)


def _without_compile(found: TaskCheck, flag: str, seconds: float) -> TaskCheck:
    """The record made before torch.compile was tried, and what became of that."""
    kinds = (*found.weaknesses, Weakness.NO_COMPILE)
    if found.purpose is Purpose.TRAINING:
        changes = {"problems": (*found.problems, flag), "fitness": Fitness.UNFIT}
    else:
        changes = {"flags": (*found.flags, flag)}
    return found.model_copy(update={**changes, "weaknesses": kinds, "seconds": round(seconds, 3)})


def _how(status: int | None, batch: CheckBatch) -> tuple[str, Fitness]:
    """How a task's process ended, and what that says of the task."""
    sim = batch.settings.device is Device.SIM
    if status is None:
        # A CPU's slowness says nothing about the task.
        fitness = Fitness.UNSUPPORTED if sim else Fitness.UNFIT
        return f"did not end within {batch.timeout_s:g} s", fitness
    if status == -signal.SIGKILL:
        return "was killed, most likely for want of memory", Fitness.UNSUPPORTED
    how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    return f"was ended by the task's own code ({how})", Fitness.UNFIT


def _child(task: Task, settings: CheckSettings, folder: Path, record: Path) -> None:
    """Never returns: the task's code must not reach what lies above on this stack."""
    status = OURS
    try:
        os.setsid()
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT, 0o644)
        for fd in (1, 2):
            os.dup2(log, fd)
        from warpsmith.judge.check_task import check_task

        check_task(
            task, settings, folder / "task.py", lambda row: write_atomic(record, row.model_dump_json())
        )
        status = 0
    except InfrastructureError as error:
        write_atomic(record, infrastructure(task, settings, str(error)).model_dump_json())
        status = 0
    except BaseException:  # noqa: BLE001  the process ends here, and says why
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(status)


def _wait(pid: int, timeout_s: float) -> int | None:
    """Exit status (negative: the signal), None where it had to be killed; its session is gone on return."""
    handle = os.pidfd_open(pid)
    try:
        in_time = bool(select.select([handle], [], [], timeout_s)[0])
        for kill in (os.killpg, os.kill):
            with suppress(ProcessLookupError):
                kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(handle)
    return os.waitstatus_to_exitcode(status) if in_time else None
