"""Peak rates of matrix products by NVIDIA's datasheets and architecture whitepapers.

Dense, without sparsity, in 10¹² operations a second (a multiplication and an addition are two), at boost clocks.
fp64 is that of the tensor cores where a GPU has them, bf16 and fp16 accumulate in fp32, which on GeForce halves the
rate. Sources: the datasheets of H100, H200, B200, A100, A30, A40, L4, L40S, V100, T4; the whitepapers of Hopper,
Ampere GA102, Ada and RTX Blackwell. A name that is not here has no peak.
"""

from warpsmith.gpu.devices import by_name
from warpsmith.types import Precision

_ORDER = (Precision.FP64, Precision.FP32, Precision.TF32, Precision.BF16, Precision.FP16)
_Row = tuple[float | None, float | None, float | None, float | None, float | None]

_HOPPER: _Row = (67.0, 67.0, 494.7, 989.4, 989.4)
_HOPPER_NVL: _Row = (60.0, 60.0, 417.5, 835.5, 835.5)
_HOPPER_PCIE: _Row = (51.0, 51.0, 378.0, 756.0, 756.0)
_AMPERE: _Row = (19.5, 19.5, 156.0, 312.0, 312.0)

# matched in order against the words of NVML's name; more special names first
_PEAKS: tuple[tuple[str, _Row], ...] = (
    ("GB200", (40.0, 80.0, 1250.0, 2500.0, 2500.0)),
    ("B200", (37.0, 75.0, 1125.0, 2250.0, 2250.0)),
    ("H200 NVL", _HOPPER_NVL),
    ("H200", _HOPPER),
    ("GH200", _HOPPER),
    ("H100 NVL", _HOPPER_NVL),
    ("H100 PCIe", _HOPPER_PCIE),
    ("H100", _HOPPER),
    ("H20", (1.0, 44.0, 74.0, 148.0, 148.0)),
    ("A100", _AMPERE),
    ("A40", (0.58, 37.4, 74.8, 149.7, 149.7)),
    ("A30", (10.3, 10.3, 82.0, 165.0, 165.0)),
    ("L40S", (1.43, 91.6, 183.0, 362.0, 362.0)),
    ("L40", (1.41, 90.5, 90.5, 181.0, 181.0)),
    ("L4", (0.47, 30.3, 60.0, 121.0, 121.0)),
    ("RTX 6000 Ada", (1.42, 91.1, 182.1, 364.2, 364.2)),
    ("RTX A6000", (0.6, 38.7, 77.4, 154.8, 154.8)),
    ("RTX 5090", (1.64, 104.8, 104.8, 209.5, 209.5)),
    ("RTX 5080", (0.88, 56.3, 56.3, 112.6, 112.6)),
    ("RTX 4090 D", (1.15, 73.5, 73.5, 147.1, 147.1)),
    ("RTX 4090", (1.29, 82.6, 82.6, 165.2, 165.2)),
    ("RTX 4080 SUPER", (0.82, 52.2, 52.2, 104.4, 104.4)),
    ("RTX 4080", (0.76, 48.7, 48.7, 97.5, 97.5)),
    ("RTX 3090 Ti", (0.63, 40.0, 40.0, 80.0, 80.0)),
    ("RTX 3090", (0.56, 35.6, 35.6, 71.0, 71.0)),
    ("V100S", (8.2, 16.4, None, None, 130.0)),
    ("V100 PCIe", (7.0, 14.0, None, None, 112.0)),
    ("V100", (7.8, 15.7, None, None, 125.0)),
    ("T4", (0.25, 8.1, None, None, 65.0)),
)


def peak_tflops(name: str, precision: Precision) -> float | None:
    """Dense peak of the GPU with this NVML name in 10¹² operations a second; None where it is not known.

    Where there is no TF32 its products run in fp32. A laptop GPU has less than its namesake, so none is given.
    """
    row = by_name(name, _PEAKS)
    if row is None:
        return None
    known = dict(zip(_ORDER, row, strict=True))
    if precision is Precision.TF32 and known[Precision.TF32] is None:
        return known[Precision.FP32]
    return known[precision]
