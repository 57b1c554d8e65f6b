"""A unit of work for the GPU pool: an entry point, files in, one record out."""

from enum import StrEnum

from warpsmith.types.base import Device, Record


class JobOutcome(StrEnum):
    """How a job's process ended, whatever it wrote."""

    COMPLETED = "completed"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"


class Job(Record):
    """`entry` (`package.module:function`) is called with `folder` in a process of its own."""

    entry: str
    folder: str
    device: Device
    timeout_s: float


class JobResult(Record):
    """`exit_code` and the tail of what the job printed; the job's record lies in its folder.

    `signal` is what ended it where that was one, and `exit_code` is None then.
    """

    outcome: JobOutcome
    exit_code: int | None = None
    signal: int | None = None
    seconds: float = 0.0
    device_index: int | None = None
    log_tail: str = ""
