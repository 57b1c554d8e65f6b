"""Device functions whose values follow from their definitions, and what libraries' stand-ins refuse."""

import ctypes
import importlib.util
import math
from pathlib import Path

import pytest
import torch

from warpsmith.compile.local import LocalCompiler
from warpsmith.errors import SubmissionUnsupportedError
from warpsmith.types import CompileStatus, Device, Submission, Target

VALUES = r"""
#include <cuda_runtime.h>
#include <cuda/std/array>
#include <cuda/std/limits>
#include <cuda/atomic>
__global__ void integers(long long* y) {
    y[0] = __float2int_rn(2.5f); y[1] = __float2int_rz(-2.7f); y[2] = __float2int_rd(-2.1f);
    y[3] = __float2int_ru(2.1f);
    y[4] = __float2int_rz(1e20f); y[5] = __float2uint_rn(-4.0f); y[6] = __double2ll_rd(-0.5);
    y[7] = __float2int_rn(NAN);
    y[8] = __dp2a_lo(0x00030002, 0x04030201, 10); y[9] = __dp2a_hi(0x00030002, 0x04030201, 10);
    y[10] = __vimax3_s32(1, 9, 4); y[11] = __fns(0xb0u, 0, 2); y[12] = __funnelshift_lc(1, 2, 40);
    y[13] = __hadd(-3, 4); y[14] = __rhadd(3, 4); y[15] = __brevll(1ull) >> 60;
    cuda::std::array<int, 3> list{1, 2, 3};
    y[16] = list[2] + cuda::std::numeric_limits<short>::max();
    cuda::atomic_ref<long long, cuda::thread_scope_device> counter(y[17]);
    counter.fetch_add(5);
}
__global__ void reals(double* y) {
    float third = 1.0f / 3.0f;
    y[0] = __fdiv_rd(1.0f, 3.0f); y[1] = __fdiv_ru(1.0f, 3.0f); y[2] = third; y[3] = __fadd_rz(1.0f, 1e-9f);
    y[4] = __int2float_rz(0x7fffffff); y[5] = __int2float_ru(0x7fffffff); y[6] = __double2float_rd(0.1);
    y[7] = erfinv(0.5); y[8] = erfinv(-0.999); y[9] = normcdfinv(0.975); y[10] = cyl_bessel_i0(1.0);
    y[11] = tanpi(0.25); y[12] = __fmaf_rn(0.1f, 10.0f, -1.0f);
}
extern "C" void integers_launcher(long long* y) { integers<<<1, 1>>>(y); }
extern "C" void reals_launcher(double* y) { reals<<<1, 1>>>(y); }
"""


def test_values(build) -> None:
    library = build(VALUES).library
    ints = (ctypes.c_longlong * 18)()
    library.integers_launcher(ints)
    assert list(ints[:8]) == [2, -2, -3, 3, 2**31 - 1, 0, -1, 0]
    assert list(ints[8:]) == [10 + 2 * 1 + 3 * 2, 10 + 2 * 3 + 3 * 4, 9, 5, 1, 0, 4, 8, 3 + 32767, 5]
    y = (ctypes.c_double * 13)()
    library.reals_launcher(y)
    below, above, third = y[:3]
    assert below < 1 / 3 < above and above - below == 2**-25 and third in (below, above)
    assert y[3] == 1.0 and y[4] == 2**31 - 128 and y[5] == 2.0**31
    assert y[6] <= 0.1 < y[6] + 1e-8
    for value, right in zip(
        y[7:12], (0.4769362762, -2.3267537655, 1.9599639845, 1.2660658778, 1.0), strict=True
    ):
        assert value == pytest.approx(right, rel=1e-9)
    exact = torch.tensor(0.1, dtype=torch.float32).double().item() * 10 - 1
    assert y[12] == pytest.approx(exact, rel=1e-6) and math.copysign(1, y[12]) > 0


REFUSED = """\
#include <cooperative_groups.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>
namespace cg = cooperative_groups;
__global__ void everywhere(float* y, int wait) {
    auto grid = cg::this_grid();
    y[grid.thread_rank()] = grid.size();
    if (wait)
        grid.sync();
}
extern "C" void grid_launcher(float* y, int wait, cudaStream_t stream) { everywhere<<<2, 4, 0, stream>>>(y, wait); }
extern "C" void gemm_launcher(const float* a, float* c, int n, cudaStream_t stream) {
    cublasHandle_t handle;
    const float one = 1, zero = 0;
    cublasCreate(&handle);
    cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, CUDA_C_32F, n, a, CUDA_C_32F, n, &zero, c,
                 CUDA_C_32F, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    cublasDestroy(handle);
}
"""


def test_what_shows_only_when_it_runs_is_unsupported_too(tmp_path: Path) -> None:
    submission = Submission(files={"model_new.py": "", "kernels/k.cu": REFUSED})
    built = LocalCompiler(cache_dir=tmp_path, jobs=1).build(submission, Target(device=Device.SIM))
    assert built.status is CompileStatus.OK, built.log
    path = Path(str(built.build_dir)) / "cuda_extension.py"
    spec = importlib.util.spec_from_file_location("refused", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    y = torch.zeros(8)
    module.grid(y, 0)
    assert y.tolist() == [8.0] * 8
    with pytest.raises(SubmissionUnsupportedError, match=r"kernels/k.cu:9: grid synchronisation cannot run"):
        module.grid(y, 1)
    with pytest.raises(
        SubmissionUnsupportedError, match="cublasGemmEx: this combination of types cannot run"
    ):
        module.gemm(torch.zeros(4), torch.zeros(4), 2)
