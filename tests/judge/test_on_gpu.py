"""The whole judge on a GPU: every way a kernel can be bad there, each form of an honest one, nothing carried over.

All share one task, whose baselines are measured once; one judge serves them all. After each bad submission an honest
one must still pass.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from warpsmith.compile import LocalCompiler
from warpsmith.compile.toolchain import find_nvcc
from warpsmith.gpu.devices import list_gpus
from warpsmith.gpu.local import LocalPool, visible_gpus
from warpsmith.judge.instruments import memcheck
from warpsmith.judge.job import Instrument
from warpsmith.judge.service import LocalJudge
from warpsmith.sandbox import best_available
from warpsmith.sandbox.process import Tree
from warpsmith.types import Device, KernelKind, Rules, Status, Submission, Task, Verdict
from warpsmith.types.protocols import JudgeSettings, Menu

pytestmark = pytest.mark.gpu

Judge = Callable[..., Verdict]

TASK = Task(
    name="diag",
    code="""
import torch
class Model(torch.nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.full((4096,), bias))
    def forward(self, a, b):
        return torch.diag(a) @ b + self.bias
def get_inputs():
    return [torch.rand(4096), torch.rand(4096, 4096)]
def get_init_inputs():
    return [0.5]
""",
)
HEAD = "import torch\nimport cuda_extension\n"
MODEL = """
class ModelNew(torch.nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.empty(4096))
    def forward(self, a, b):
        out = torch.empty_like(b)
        cuda_extension.rowscale(out, a, b, self.bias, b.shape[0], b.shape[1] // 4)
        return out
"""
KERNEL = """
#include <cuda_runtime.h>
__global__ void rowscale(float4* out, const float* a, const float4* b, const float4* bias, int columns) {
    const float s = a[blockIdx.x];
    const size_t row = (size_t)blockIdx.x * columns;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) {
        const float4 v = __ldcs(&b[row + i]), c = bias[i];
        __stcs(&out[row + i], make_float4(v.x * s + c.x, v.y * s + c.y, v.z * s + c.z, v.w * s + c.w));
    }
}
extern "C" void rowscale_launcher(float* out, const float* a, const float* b, const float* bias, int rows,
                                  int columns, cudaStream_t stream) {
    rowscale<<<rows, 256, 0, stream>>>((float4*)out, a, (const float4*)b, (const float4*)bias, columns);
}
"""
BINDING = """
#include <torch/types.h>
#include <torch/csrc/utils/pybind.h>
#include <c10/cuda/CUDAStream.h>
#include "../binding_registry.h"
extern "C" void rowscale_launcher(float*, const float*, const float*, const float*, int, int, cudaStream_t);
static torch::Tensor rowscale(torch::Tensor a, torch::Tensor b, torch::Tensor bias) {
    auto out = torch::empty_like(b);
    rowscale_launcher(out.data_ptr<float>(), a.data_ptr<float>(), b.data_ptr<float>(), bias.data_ptr<float>(),
                      b.size(0), b.size(1) / 4, c10::cuda::getCurrentCUDAStream().stream());
    return out;
}
static void bind(pybind11::module& m) { m.def("rowscale", &rowscale); }
REGISTER_BINDING(rowscale, bind);
"""
# built from an argument of the constructor
INLINE = '''
import torch
from torch.utils.cpp_extension import load_inline
CPP = """
#include <pybind11/pybind11.h>
#include <cstdint>
void rowscale(std::uintptr_t out, std::uintptr_t a, std::uintptr_t b, int rows, std::uintptr_t stream);
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("rowscale", &rowscale); }
"""
CUDA = """
#include <cuda_runtime.h>
#include <cstdint>
__global__ void kernel(float* out, const float* a, const float* b) {
    const size_t row = (size_t)blockIdx.x * 4096;
    for (int i = threadIdx.x; i < 4096; i += blockDim.x) out[row + i] = b[row + i] * a[blockIdx.x];
}
void rowscale(std::uintptr_t out, std::uintptr_t a, std::uintptr_t b, int rows, std::uintptr_t stream) {
    kernel<<<rows, 256 * HALVES, 0, (cudaStream_t)stream>>>((float*)out, (const float*)a, (const float*)b);
}
"""
class ModelNew(torch.nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.empty(4096))
        cuda = CUDA.replace("HALVES", str(int(2 * bias)))
        self.ext = load_inline("rowscale", CPP, cuda, no_implicit_headers=True)
    def forward(self, a, b):
        out = torch.empty_like(b)
        stream = torch.cuda.current_stream().cuda_stream
        self.ext.rowscale(out.data_ptr(), a.data_ptr(), b.data_ptr(), b.shape[0], stream)
        return out + self.bias
'''
CUBLAS = """
#include <cublas_v2.h>
extern "C" void dgmm_launcher(float* out, const float* a, const float* b, int n, cudaStream_t stream) {
    static cublasHandle_t handle = nullptr;
    if (!handle) cublasCreate(&handle);
    cublasSetStream(handle, stream);
    cublasSdgmm(handle, CUBLAS_SIDE_RIGHT, n, n, b, n, a, 1, out, n);
}
"""


def made(model: str = MODEL, kernel: str = KERNEL, **more: str) -> Submission:
    """The honest submission, or one with a part replaced or added."""
    return Submission(files={"model_new.py": HEAD + model, "kernels/rowscale.cu": kernel, **more})


def kernel(old: str, new: str) -> Submission:
    """The honest submission with a part of its kernel replaced."""
    assert old in KERNEL
    return made(kernel=KERNEL.replace(old, new))


def forward(statement: str) -> Submission:
    """The honest submission that first does something else."""
    return made(MODEL.replace("        out = torch", f"        {statement}\n        out = torch"))


HONEST = made()


@pytest.fixture(scope="module")
def arch() -> str:
    """This GPU's architecture; skips without a GPU or nvcc."""
    torch = pytest.importorskip("torch")
    gpus = visible_gpus(list_gpus(), os.environ.get("CUDA_VISIBLE_DEVICES"))
    if not gpus or torch.version.cuda is None or find_nvcc() is None:
        pytest.skip("needs an NVIDIA GPU and nvcc")
    return gpus[0].arch


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One cache for the module."""
    folder = tmp_path_factory.mktemp("gpu-cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARPSMITH_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="module")
def judge(arch: str, cache: Path) -> Iterator[Judge]:
    """`judge(submission, task=TASK, **settings)`: correctness alone unless `measure` is said."""
    compiler = LocalCompiler(cache / "compile")
    with closing(LocalJudge(LocalPool(Tree), compiler, best_available(), arch=arch, ahead=True)) as local:

        def run(submission: Submission, task: Task = TASK, **settings: object) -> Verdict:
            asked = {"measure": False, "baselines": Menu.PAPER, **settings}
            return local.judge(task, submission, JudgeSettings(device=Device.CUDA, **asked))

        yield run


def test_an_honest_kernel_passes_and_is_faster(judge: Judge) -> None:
    verdict = judge(HONEST, measure=True, rules=Rules.PAPER)
    assert verdict.status is Status.PASSED, verdict.detail
    assert verdict.speedup.paper.eager > 5 and verdict.speedup.paper.compile > 5, verdict.speedup
    assert verdict.timings.candidate.median_ms > 0.8 * verdict.floor.floor_ms


BAD = {
    "wrong": (kernel("v.x * s", "v.x * s * 1.05f"), Status.WRONG),
    "out of bounds": (kernel("&out[row + i]", "&out[row + i + (1ull << 40)]"), Status.CRASHED),
    "endless": (
        kernel(
            "    const size_t row", "    while (((volatile const float*)a)[0] > -1.f);\n    const size_t row"
        ),
        Status.TIMED_OUT,
    ),
    "host segfault": (forward("import ctypes; ctypes.string_at(8)"), Status.CRASHED),
    "raises": (forward("raise ValueError('what now')"), Status.CRASHED),
    "too much memory": (forward("torch.empty(1 << 42, device='cuda')"), Status.CRASHED),
    "too many threads": (kernel("<<<rows, 256", "<<<rows, 2048"), Status.CRASHED),
    "asserts": (kernel("    const float s", "    __trap();\n    const float s"), Status.CRASHED),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_submission_has_its_status_and_the_next_one_passes(judge: Judge, what: str) -> None:
    submission, status = BAD[what]
    verdict = judge(submission, call_timeout_s=5.0)
    assert verdict.status is status, verdict.detail
    assert verdict.speedup is None
    after = judge(HONEST)
    assert after.status is Status.PASSED, after.detail


def test_a_crash_while_it_is_timed_is_no_time(judge: Judge) -> None:
    """More calls than are made before timing."""
    late = forward("self.n = getattr(self, 'n', 0) + 1; self.n < 40 or 1 / 0")
    verdict = judge(late, measure=True)
    assert verdict.status is Status.CRASHED, verdict.detail
    assert verdict.speedup is None and verdict.timings is None
    assert verdict.phase.value == "timing"


FORMS = {
    "workspace": made(
        MODEL.replace("        out = torch.empty_like(b)\n", "")
        .replace("cuda_extension.rowscale(out, a, b, self.bias, b.shape[0], b.shape[1] // 4)", "pass")
        .replace("return out", "return cuda_extension.rowscale(a, b, self.bias)"),
        **{"kernels/rowscale_binding.cpp": BINDING},
    ),
    "load_inline in the constructor": Submission(files={"model_new.py": INLINE}),
    "C-ABI with cuBLAS": made(
        MODEL.replace("rowscale(out, a, b, self.bias, b.shape[0], b.shape[1] // 4)", "dgmm(out, a, b, b.shape[1])")
        .replace("return out", "return out.add_(self.bias)"),
        CUBLAS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_each_form_passes(judge: Judge, form: str) -> None:
    verdict = judge(FORMS[form])
    assert verdict.status is Status.PASSED, verdict.detail


def test_work_that_is_a_memset_is_seen(judge: Judge) -> None:
    before = kernel(
        "    rowscale<<<", "    cudaMemsetAsync(out, 0, 16ull * rows * columns, stream);\n    rowscale<<<"
    )
    verdict = judge(before)
    assert verdict.status is Status.PASSED, verdict.detail
    assert verdict.evidence is not None and not verdict.evidence.kernels_problem, verdict.evidence
    assert KernelKind.MEMSET in {seen.kind for seen in verdict.evidence.kernels}


def test_memcheck_names_the_kernel(arch: str, cache: Path) -> None:
    if memcheck.find() is None:
        pytest.skip("needs compute-sanitizer")
    pool, compiler = LocalPool(Tree), LocalCompiler(cache / "compile")
    checked = LocalJudge(pool, compiler, best_available(), arch=arch, instrument=Instrument.MEMCHECK)
    settings = JudgeSettings(device=Device.CUDA, measure=False)
    # an element beyond the output: inside what PyTorch's allocator holds, so that nothing else notices
    beyond = kernel("__stcs(&out[row + i],", "__stcs(&out[row + i + 1],")
    verdict = checked.judge(TASK, beyond, settings)
    assert verdict.status is Status.CRASHED, verdict.detail
    assert verdict.detail.startswith("memcheck: rowscale: write of 16 bytes outside global memory"), (
        verdict.detail
    )
    honest = checked.judge(TASK, HONEST, settings)
    assert honest.status is Status.PASSED, honest.detail
