"""What Nsight Compute measured of a submission's kernels: told beside a verdict, never part of it."""

from typing import Annotated

from pydantic import Field, model_validator

from warpsmith.types.base import Record

Percent = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""Of a peak; a little above 100 is seen."""
Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Stall(Record):
    """One reason for which warps wait, by Nsight Compute's name, such as `long_scoreboard`."""

    reason: str
    cycles: Number
    """Cycles that a warp waits for it between two of its instructions, on average."""


class KernelProfile(Record):
    """One kernel, the mean over its profiled launches; None for what the GPU does not measure."""

    kernel: str
    launches: Annotated[int, Field(ge=1)]
    duration_us: Number | None = None
    """One launch, caches flushed before it: not a time of the verdict's clock."""
    dram_percent: Percent | None = None
    sm_percent: Percent | None = None
    occupancy_percent: Percent | None = None
    """Achieved: warps active of those that an SM can hold."""
    registers: Number | None = None
    """A thread."""
    l1_hit_percent: Percent | None = None
    l2_hit_percent: Percent | None = None
    stalls: tuple[Stall, ...] = ()
    """The most frequent, at most three."""

    def figures(self, microseconds: str = "µs") -> tuple[str, ...]:
        """What was measured, in words, with this sign for its unit of time; empty where nothing was."""
        shown = (
            (self.duration_us, f"{{:.4g}} {microseconds}"),
            (self.dram_percent, "DRAM {:.0f} %"),
            (self.sm_percent, "SM {:.0f} %"),
            (self.occupancy_percent, "occupancy {:.0f} %"),
            (self.registers, "{:.0f} registers"),
            (self.l1_hit_percent, "L1 hits {:.0f} %"),
            (self.l2_hit_percent, "L2 hits {:.0f} %"),
        )
        return tuple(text.format(value) for value, text in shown if value is not None)


class ProfileReport(Record):
    """The kernels, those first that take the longest together; or why there are none."""

    kernels: tuple[KernelProfile, ...] = ()
    problem: str = ""

    @model_validator(mode="after")
    def _told(self) -> "ProfileReport":
        if bool(self.kernels) == bool(self.problem):
            raise ValueError("a profile has either kernels or the reason why not")
        return self
