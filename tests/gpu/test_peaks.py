"""Datasheet peaks by NVML name."""

import pytest

from warpsmith.gpu.peaks import peak_tflops
from warpsmith.types import Precision

FP64, FP32, TF32, BF16, FP16 = Precision


@pytest.mark.parametrize(
    ("name", "precision", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", FP32, 67.0),
        ("NVIDIA H100 80GB HBM3", TF32, 494.7),
        ("NVIDIA H100 PCIe", BF16, 756.0),
        ("NVIDIA H100 NVL", FP16, 835.5),
        ("NVIDIA H200", FP16, 989.4),
        ("NVIDIA H200 NVL", FP64, 60.0),
        ("NVIDIA A100-SXM4-80GB", TF32, 156.0),
        ("NVIDIA A100-PCIE-40GB", FP64, 19.5),
        ("NVIDIA B200", BF16, 2250.0),
        ("NVIDIA L4", FP32, 30.3),
        ("NVIDIA L40S", TF32, 183.0),
        ("NVIDIA GeForce RTX 4090", BF16, 165.2),
        ("NVIDIA GeForce RTX 5090", FP32, 104.8),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", FP32, None),
        ("Tesla V100-PCIE-16GB", FP16, 112.0),
        ("Tesla V100-SXM2-16GB", TF32, 15.7),
        ("Tesla T4", BF16, None),
        ("Something new", FP32, None),
    ],
)
def test_datasheet_peaks(name: str, precision: Precision, expected: float | None) -> None:
    assert peak_tflops(name, precision) == expected


@pytest.mark.parametrize(
    "name", ["NVIDIA H200", "NVIDIA A100-SXM4-80GB", "NVIDIA L4", "NVIDIA GeForce RTX 5090"]
)
def test_less_precise_is_never_slower(name: str) -> None:
    peaks = [peak_tflops(name, precision) for precision in (FP32, TF32, BF16, FP16)]
    assert peaks == sorted(peaks)
    assert peak_tflops(name, FP64) <= peak_tflops(name, FP32)
