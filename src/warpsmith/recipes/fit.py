"""Tasks made to fit the simulator, by a job of the pool: what it starts ends with the pool."""

import tempfile
from enum import StrEnum
from pathlib import Path

from pydantic import ValidationError

from warpsmith.errors import (
    InfrastructureError,
    TaskError,
    TaskRefusedError,
    TaskUnreadableError,
    TaskUnsupportedError,
)
from warpsmith.store import write_atomic
from warpsmith.types import Device, Job, Record, Task
from warpsmith.types.protocols import GpuPool

ENTRY = "warpsmith.recipes.fit:run"
TIMEOUT_S = 600.0


class Fault(StrEnum):
    """Why a task cannot be made to fit."""

    REFUSED = "refused"
    UNSUPPORTED = "unsupported"
    UNREADABLE = "unreadable"


_ERRORS: dict[Fault, type[TaskError]] = {
    Fault.REFUSED: TaskRefusedError,
    Fault.UNSUPPORTED: TaskUnsupportedError,
    Fault.UNREADABLE: TaskUnreadableError,
}


class Fitted(Record):
    """The task that fits, or what is wrong with it."""

    task: Task | None = None
    fault: Fault | None = None
    message: str = ""
    hint: str | None = None


def fit(task: Task, pool: GpuPool | None) -> Task:
    """The task itself where the simulator can run it, else one derived from it with smaller sizes.

    Without a pool it is found out here. Raises TaskError where there is none, InfrastructureError where the job is
    lost.
    """
    if pool is None:
        from warpsmith.sim.shrink import shrink

        return shrink(task)
    with tempfile.TemporaryDirectory(prefix="warpsmith-fit-") as name:
        folder = Path(name)
        (folder / "task.json").write_text(task.model_dump_json())
        result = pool.run(Job(entry=ENTRY, folder=name, device=Device.SIM, timeout_s=TIMEOUT_S))
        try:
            found = Fitted.model_validate_json((folder / "fitted.json").read_text())
        except (OSError, ValidationError) as error:
            last = (result.log_tail.strip().splitlines() or [result.outcome.value])[-1][:200]
            raise InfrastructureError(f"a task could not be fitted to the simulator: {last}") from error
    if found.task is not None:
        return found.task
    raise _ERRORS[found.fault or Fault.REFUSED](found.message, hint=found.hint)


def run(folder: Path) -> None:
    """The job."""
    from warpsmith.sim.shrink import shrink

    # a job that is killed leaves nothing outside its folder
    tempfile.tempdir = str(folder)
    try:
        found = Fitted(task=shrink(Task.model_validate_json((folder / "task.json").read_text())))
    except TaskError as error:
        fault = next(fault for fault, kind in _ERRORS.items() if isinstance(error, kind))
        found = Fitted(fault=fault, message=str(error), hint=error.hint)
    write_atomic(folder / "fitted.json", found.model_dump_json())
