"""GPUs by NVML, and their datasheets."""

import pytest

from warpsmith.gpu import bandwidth_gb_s, list_gpus


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA H200", 4800.0),
        ("NVIDIA H100 80GB HBM3", 3350.0),
        ("NVIDIA H100 PCIe", 2000.0),
        ("NVIDIA A100-SXM4-80GB", 2039.0),
        ("NVIDIA A100-SXM4-40GB", 1555.0),
        ("NVIDIA A100 80GB PCIe", 1935.0),
        ("NVIDIA L40S", 864.0),
        ("NVIDIA L4", 300.0),
        ("NVIDIA A10", 600.0),
        ("NVIDIA GeForce RTX 4090", 1008.0),
        ("NVIDIA GeForce RTX 3090", 936.0),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("Tesla V100-SXM2-16GB", 900.0),
        ("Tesla T4", 320.0),
        ("NVIDIA B200", 8000.0),
        ("NVIDIA T400", None),
        ("Something new", None),
    ],
)
def test_datasheet_bandwidth(name, expected):
    assert bandwidth_gb_s(name) == expected


def test_listing_never_raises():
    assert all(gpu.memory_bytes > 0 and gpu.arch.startswith("sm_") for gpu in list_gpus())


@pytest.mark.gpu
def test_this_machines_gpus():
    gpus = list_gpus()
    if not gpus:
        pytest.skip("no NVIDIA GPU")
    assert [gpu.index for gpu in gpus] == list(range(len(gpus)))
    assert all(gpu.uuid.startswith("GPU-") and gpu.driver for gpu in gpus)
