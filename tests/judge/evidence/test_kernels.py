"""Names of kernels as CUPTI gives them, honest ones and forged ones."""

import shutil
from pathlib import Path

import pytest
from tests.judge.samples import submission

from warpsmith.compile import LocalCompiler
from warpsmith.compile.toolchain import find_nvcc
from warpsmith.judge.evidence.kernels import is_allowed, kind_of, readable
from warpsmith.types import Device, KernelKind, Target

OWN = frozenset(
    {
        "affine_kernel(float*, float const*, float const*, float, int, int)",
        "cutlass_gemm(float*, float const*)",
        "void sm90_xmma_gemm_mine<float>(float*)",
        "void (anonymous namespace)::softmax_warp_forward<float>(float*)",
        "void at::native::elementwise_kernel<128, 4, mine>(int, mine)",
        "void cub::CUB_200802_900_NS::DeviceReduceKernel<float>(float*)",
        "triton_like(float*)",
    }
)
NAMES = {
    "affine_kernel(float*, float const*, float const*, float, int, int)": KernelKind.OWN,
    "cutlass_gemm(float*, float const*)": KernelKind.OWN,
    "void sm90_xmma_gemm_mine<float>(float*)": KernelKind.OWN,
    "void (anonymous namespace)::softmax_warp_forward<float>(float*)": KernelKind.OWN,
    "void cub::CUB_200802_900_NS::DeviceReduceKernel<float>(float*)": KernelKind.OWN,
    "triton_like(float*)": KernelKind.OWN,
    # an own name, but not what the build made
    "affine_kernel(double*, double const*)": KernelKind.UNKNOWN,
    # torch's own namespace is torch's, whoever compiled it
    "void at::native::elementwise_kernel<128, 4, mine>(int, mine)": KernelKind.TORCH,
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, int>(int)":
        KernelKind.TORCH,
    "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>(float*, float const*)":
        KernelKind.TORCH,
    "void cub::CUB_300001_900_NS::DeviceScanKernel<int>(int*)": KernelKind.TORCH,
    "void pytorch_flash::flash_fwd_kernel<int>(int)": KernelKind.TORCH,
    "fmha_cutlassF_f32_aligned_64x64_rf_sm80(int)": KernelKind.TORCH,
    "triton_poi_fused_add_0": KernelKind.TRITON,
    "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas":
        KernelKind.CUBLAS,
    "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT": KernelKind.CUBLAS,
    "ampere_sgemm_128x64_tn": KernelKind.CUBLAS,
    "cutlass_80_simt_sgemm_128x64_8x5_nn_align1": KernelKind.CUBLAS,
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align4>(int)": KernelKind.CUBLAS,
    "void cublasLt::splitKreduce_kernel<32, 16, int, float>(int)": KernelKind.CUBLAS,
    "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>(int)": KernelKind.CUBLAS,
    "void gemmSN_TN_kernel<float, 128, 16, 2, 4, 4, 4, true>(int)": KernelKind.CUBLAS,
    "sm90_xmma_fprop_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x32_5x_cudnn": KernelKind.CUDNN,
    "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688fprop_optimized_tf32_128x128_16x4_nhwc_align4>(int)":
        KernelKind.CUDNN,
    "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(int)": KernelKind.CUDNN,
    "void implicit_convolve_sgemm<float, float, 128, 5, 5, 3, 3, 3, 1, false, false, true>(int)": KernelKind.CUDNN,
    "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(int)": KernelKind.CUDNN,
    "void vector_fft<256u, 8u>(int)": KernelKind.LIBRARY,
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)": KernelKind.LIBRARY,
    "": KernelKind.UNKNOWN,
    "mystery": KernelKind.UNKNOWN,
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_the_origin_of_a_kernel(name: str) -> None:
    assert kind_of(name, OWN) is NAMES[name]


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, int>(int)", True),
        (
            "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<"
            "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}> >(int)",
            True,
        ),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)",
            False,
        ),
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<int>(int)", False),
        ("triton_poi_fused_add_0", False),
        ("ampere_sgemm_128x64_tn", True),
        ("void cudnn::ops::nchwToNhwcKernel<float>(int)", True),
        ("void cudnn::softmax_fw_kernel<2, float>(int)", False),
        ("void cudnn::pooling_fw_4d_kernel<float>(int)", False),
        ("void vector_fft<256u>(int)", False),
        ("mystery", True),
        ("affine_kernel(float*, float const*, float const*, float, int, int)", True),
    ],
)
def test_what_the_papers_rules_allow(name: str, allowed: bool) -> None:
    assert is_allowed(name, kind_of(name, OWN)) is allowed


def test_names_are_demangled_together() -> None:
    if shutil.which("c++filt") is None:
        pytest.skip("no c++filt")
    assert readable(["_Z6affinePf", "plain", ""]) == {
        "_Z6affinePf": "affine(float*)",
        "plain": "plain",
        "": "",
    }
    assert readable([]) == {}


def test_what_the_build_names_is_what_cupti_will(tmp_path: Path) -> None:
    if find_nvcc() is None:
        pytest.skip("no nvcc")
    kernel = """
namespace { template <class T> __global__ void scale(T* x, T s) { x[threadIdx.x] *= s; } }
__global__ void cutlass_gemm(float* x) { x[0] = 1; }
extern "C" __global__ void plain(float* x) { x[0] = 2; }
extern "C" void affine_launcher(float* out, cudaStream_t stream) {
    scale<float><<<1, 32, 0, stream>>>(out, 2.0f);
    cutlass_gemm<<<1, 1, 0, stream>>>(out);
    plain<<<1, 1, 0, stream>>>(out);
}
"""
    built = LocalCompiler(tmp_path).build(submission(kernel=kernel), Target(device=Device.CUDA, arch="sm_90"))
    own = frozenset(found.kernel for found in built.kernels)
    mangled = [
        "_ZN55_INTERNAL_x_9affine_cu_x_4859_GLOBAL__N__x5scaleIfEEvPT_S1_",
        "_Z12cutlass_gemmPf",
        "plain",
    ]
    names = readable(mangled)
    assert [kind_of(names[name], own) for name in mangled[1:]] == [KernelKind.OWN] * 2
    assert any(name.startswith("void (anonymous namespace)::scale<float>") for name in own), own
