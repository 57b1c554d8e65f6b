"""Names that a runner needs as well: importing this loads no pydantic."""

from enum import StrEnum


class Device(StrEnum):
    """Where kernels run: a real GPU, or the CPU simulator, which proves correctness and never speed."""

    CUDA = "cuda"
    SIM = "sim"


class Rules(StrEnum):
    """`paper`: forward may use views, `empty*` and own ops only. `practical`: torch ops too, share reported."""

    PAPER = "paper"
    PRACTICAL = "practical"


class BaselineKind(StrEnum):
    """How a baseline runs the model. All but EAGER are forms of torch.compile."""

    EAGER = "eager"
    COMPILE = "compile"
    FROZEN = "frozen"
    """Inductor freezing: weights are constants, and what is computed from them alone, casts too, is done ahead."""
    MAX_AUTOTUNE = "max-autotune"
    CUDA_GRAPHS = "cuda-graphs"
    TVM = "tvm"

    @property
    def side(self) -> str:
        """The ratio that it counts for: `eager` or `compile`."""
        return "eager" if self is BaselineKind.EAGER else "compile"


def baseline_name(mode: str, kind: BaselineKind) -> str:
    """`tf32 compile`: how a baseline is called wherever it is named."""
    return f"{mode} {kind.value}"
