"""Where a candidate stands beside what a GPU's datasheet allows: information, on which no verdict rests."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from warpsmith.types.base import Record

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Precision(StrEnum):
    """In what a product is computed: the unit of the GPU that a peak is of."""

    FP64 = "fp64"
    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"


class Bound(StrEnum):
    """What takes the longer at the datasheet's peaks."""

    MEMORY = "memory"
    COMPUTE = "compute"


class ProductWork(Record):
    """The FLOPs of the reference's products in one precision, and the GPU's dense peak in it."""

    precision: Precision
    flops: Annotated[int, Field(gt=0)]
    peak_tflops: Positive
    """10¹² operations a second, sparsity not counted."""


class Roofline(Record):
    """The reference's products and the byte floor's traffic at the GPU's peaks, and what the candidate attains.

    Counted are matrix products, convolutions, attention and cuDNN's recurrent layers of the reference as it is
    written; pointwise operators and reductions are not. A candidate may need fewer: algebra removes products.
    """

    work: tuple[ProductWork, ...] = ()
    """Empty where the reference holds no product."""
    flops: Annotated[int, Field(ge=0)]
    traffic_bytes: Annotated[int, Field(ge=0)]
    """Inputs read once and outputs written once."""
    intensity: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """FLOP per byte of traffic."""
    compute_ms: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """The products at their peaks, one after the other."""
    memory_ms: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """The traffic at the datasheet's bandwidth: the byte floor."""
    bound: Bound
    attained_tflops: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """The reference's FLOPs over the candidate's median time."""
    attained_gb_s: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """The traffic over the candidate's median time."""
    share: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """The longer of the two times over the candidate's median: above 1 where it does less work, or less precisely."""
