"""What the compiler is asked for and what it says."""

from enum import StrEnum

from warpsmith.types.base import Record
from warpsmith.types.kinds import Device


class CompileStatus(StrEnum):
    """Outcome of a build."""

    OK = "ok"
    FAILED = "failed"
    UNSUPPORTED = "unsupported"
    TIMED_OUT = "timed_out"


class Target(Record):
    """What to build for. `arch` is such as `sm_90`; on `sim` it is empty.

    `sanitize`, on `sim` only: out-of-bounds and misaligned accesses end the process with a report
    (`warpsmith.sim.sanitizer` says what that process needs, and reads the report).
    """

    device: Device
    arch: str = ""
    sanitize: bool = False


class KernelResources(Record):
    """What ptxas reports for one kernel."""

    kernel: str
    registers: int
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    shared_bytes: int = 0


class CompileResult(Record):
    """One build. `build_dir` holds an importable `cuda_extension` when status is ok."""

    status: CompileStatus
    key: str
    """Content hash of sources, flags, architecture and toolchain."""
    build_dir: str | None = None
    log: str = ""
    """Compiler output, trimmed, errors first."""
    seconds: float = 0.0
    cached: bool = False
    kernels: tuple[KernelResources, ...] = ()
