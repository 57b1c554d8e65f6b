"""A unit of work for a pool: an entry point, files in, one record out."""

from enum import StrEnum

from warpsmith.types.base import Record
from warpsmith.types.kinds import Device


class JobOutcome(StrEnum):
    """How a job's process ended, whatever it wrote."""

    COMPLETED = "completed"
    CRASHED = "crashed"
    """Its process ended otherwise than normally, or it took healthy workers down with it again and again."""
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    LOST = "lost"
    """The worker was lost, and nothing says whether the job had to do with it."""


class Job(Record):
    """`entry` (`package.module:function`) is called with `folder` in a process of its own.

    Where a worker is lost the job is run again in the same folder, so it must not mind what it left there.
    """

    entry: str
    folder: str
    device: Device
    timeout_s: float


class Attempt(Record):
    """A try at a job whose worker was lost. `healthy`: worker and device passed a self-test before and after it."""

    worker: str
    device_index: int | None = None
    healthy: bool = False


class JobResult(Record):
    """`exit_code` and the tail of what the job printed; the job's record lies in its folder.

    `signal` is what ended it where that was one, and `exit_code` is None then. `lost`: tries before this one that
    lost their worker, and this one too where the outcome says so.
    """

    outcome: JobOutcome
    exit_code: int | None = None
    signal: int | None = None
    seconds: float = 0.0
    device_index: int | None = None
    log_tail: str = ""
    worker: str = ""
    """The worker that ran it; empty where each job has a process of its own."""
    lost: tuple[Attempt, ...] = ()
