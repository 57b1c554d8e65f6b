"""What the service asks the profiling job for."""

from warpsmith.types import Device, Record

ENTRY = "warpsmith.judge.instruments.ncu_job:run"


class ProfileRequest(Record):
    """What is to be profiled, in `profile.json` of the job's folder."""

    device: Device
    tool: str
    sandbox: str
    own_paths: tuple[str, ...]
    """Folders that the watched process must be able to read: the interpreter and its packages."""
    timeout_s: float
