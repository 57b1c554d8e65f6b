"""What ran on the GPU and in PyTorch during a judgement's calls."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from warpsmith.types.base import Record

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class KernelKind(StrEnum):
    """Where a kernel comes from. `library`: NVIDIA's others (cuFFT, cuSPARSE, …)."""

    OWN = "own"
    CUBLAS = "cublas"
    CUDNN = "cudnn"
    LIBRARY = "library"
    TORCH = "torch"
    TRITON = "triton"
    MEMCPY = "memcpy"
    MEMSET = "memset"
    UNKNOWN = "unknown"


class OperatorSource(StrEnum):
    """How torch operators were seen: natively in every call, by a dispatch mode in one call, or not at all."""

    NATIVE = "native"
    ONE_CALL = "one_call"
    NONE = "none"


class KernelSeen(Record):
    """One kernel, or one kind of memory copy or fill, over all observed brackets."""

    name: str
    kind: KernelKind
    count: int
    share: Share | None = None
    """Of the summed device time; None where CUPTI had no times."""
    brackets: int
    """In how many brackets it ran."""


class Evidence(Record):
    """What the observer in a runner's process saw. It explains, and decides the `paper` rules; it can be evaded.

    An observer that sees no kernel says so in `kernels_problem`: never 0 ms, never "no kernels".
    """

    brackets: int
    calls: int
    kernels_problem: str = ""
    """Why kernels were not observed; empty where they were."""
    operators_source: OperatorSource
    operators_problem: str = ""
    kernels: tuple[KernelSeen, ...] = ()
    """The longest first."""
    own_share: Share | None = None
    """Own kernels' share of the summed device time, copies and fills counted in."""
    launches_per_call: float | None = None
    device_ms: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Summed device time of a call by CUPTI, the median over brackets that ran the most calls."""
    operators: dict[str, int] = Field(default_factory=dict)
    """Torch operator → how often it was dispatched."""
    consistent: bool | None = None
    """True where every bracket ran the same kernels as often a call; None where kernels were not observed."""
    differences: tuple[str, ...] = ()
    """What differed between brackets, a line each."""
    brackets_without_kernel: int = 0
    lost_records: int = 0
    """Records that CUPTI dropped: counts are then too low."""

    def shares(self) -> dict[KernelKind, float]:
        """Share of the summed device time by origin, the largest first; empty where there are no times."""
        found: dict[KernelKind, float] = {}
        for kernel in self.kernels:
            if kernel.share is not None:
                found[kernel.kind] = found.get(kernel.kind, 0.0) + kernel.share
        return dict(sorted(found.items(), key=lambda item: -item[1]))
