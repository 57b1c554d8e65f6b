"""On a GPU: the roofline in a verdict, and what the real ncu says of the submission that was judged."""

from pathlib import Path

import pytest
from tests.judge.test_on_gpu import HONEST, TASK, Judge, arch, cache, judge  # noqa: F401 - fixtures

from warpsmith.compile import LocalCompiler
from warpsmith.gpu.local import LocalPool
from warpsmith.gpu.peaks import peak_tflops
from warpsmith.judge.instruments import ncu_table
from warpsmith.judge.instruments.ncu import NcuProfiler
from warpsmith.judge.instruments.ncu_job import NOT_PERMITTED
from warpsmith.sandbox import best_available
from warpsmith.sandbox.process import Tree
from warpsmith.types import Bound, Device, Precision, Status, Target

pytestmark = pytest.mark.gpu


def test_algebra_that_removes_a_product_exceeds_the_roofline_and_passes(judge: Judge) -> None:  # noqa: F811
    verdict = judge(HONEST, measure=True)
    assert verdict.status is Status.PASSED, verdict.detail
    if peak_tflops(verdict.machine.gpu, Precision.FP32) is None:
        assert verdict.roofline is None
        pytest.skip(f"no peaks are known of a {verdict.machine.gpu}")
    found = verdict.roofline
    assert found.flops == 2 * 4096**3
    assert [w.precision for w in found.work] == [Precision.FP32]
    assert found.bound is Bound.COMPUTE and found.share > 1
    assert found.memory_ms == verdict.floor.floor_ms
    assert found.attained_gb_s == pytest.approx(
        found.traffic_bytes / verdict.timings.candidate.median_ms / 1e6
    )


def test_ncu_measures_the_kernel_or_says_why_not(arch: str, cache: Path) -> None:  # noqa: F811
    if ncu_table.find() is None:
        pytest.skip("ncu is not installed")
    target = Target(device=Device.CUDA, arch=arch)
    profiler = NcuProfiler(LocalPool(Tree), LocalCompiler(cache / "compile"), target, best_available().name)
    found = profiler.profile(TASK, HONEST)
    if found.problem == NOT_PERMITTED:
        pytest.skip(NOT_PERMITTED)
    assert found.problem == ""
    (kernel,) = [k for k in found.kernels if k.kernel.startswith("rowscale")]
    assert kernel.launches == 2
    assert kernel.duration_us > 20 and kernel.registers >= 8
    assert 20 < kernel.dram_percent <= 105 and 0 < kernel.occupancy_percent <= 101
    assert kernel.l2_hit_percent is not None and len(kernel.stalls) == ncu_table.STALLS
