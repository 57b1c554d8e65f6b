"""On what, and with which code, a process ran: what others need to repeat or to doubt a figure."""

from warpsmith.types.base import Record


class GpuPin(Record):
    """A GPU and its state when a process began."""

    name: str
    uuid: str
    clock_mhz: int | None = None
    """Of the multiprocessors, at that moment."""
    clock_max_mhz: int | None = None
    memory_clock_mhz: int | None = None
    power_limit_w: float | None = None


class Pins(Record):
    """On what a process ran, and with which code."""

    source: str
    """Hash of the source that decides a verdict."""
    commit: str | None = None
    """Of the checkout that the package ran from; `-dirty` behind it where files differed. None: not a checkout."""
    torch: str | None = None
    cuda: str | None = None
    driver: str | None = None
    gpus: tuple[GpuPin, ...] = ()
