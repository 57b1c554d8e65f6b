"""Whole builds on both targets: right values, right status, logs that help."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from warpsmith.compile import LocalCompiler
from warpsmith.errors import InfrastructureError, UsageError
from warpsmith.types import CompileStatus, Device, Submission, SubmissionForm, Target

_SLOW = """
constexpr long slow(long seed) { long s = seed; for (long i = 0; i < 3000000; ++i) s = s * 31 + i % 7; return s & 7; }
template <long N> struct S { static constexpr long v = slow(N) + S<N - 1>::v; };
template <> struct S<0> { static constexpr long v = 0; };
extern "C" void slow_launcher(long* out, cudaStream_t stream) { *out = S<400>::v; }
"""


def test_sim_build_computes_the_right_values(compiler, submit, sim, load):
    torch = pytest.importorskip("torch")
    result = compiler.build(submit(), sim)
    assert (result.status, result.log) == (CompileStatus.OK, "")
    assert sorted(p.name for p in Path(result.build_dir).iterdir()) == [
        "cuda_extension.py",
        "libcuda_extension.so",
    ]
    ext = load(result)
    a = torch.randn(37, 300)
    out, sums = torch.empty_like(a), torch.empty(37)
    ext.scale(out, a, -2.5, a.numel())
    ext.rowsum(sums, a, 37, 300)
    torch.testing.assert_close(out, a * -2.5)
    torch.testing.assert_close(sums, a.sum(1), rtol=1e-5, atol=1e-4)
    with pytest.raises(RuntimeError, match=r"scale_launcher: .*invalid configuration"):
        ext.scale(out, a, 1.0, -1000)
    with pytest.raises(TypeError, match=r"scale: a \(`const float\* a`\)"):
        ext.scale(out, a.double(), 1.0, 1)


def test_cuda_build_reports_resources(compiler, submit, nvcc):
    result = compiler.build(submit(), nvcc)
    assert (result.status, result.log) == (CompileStatus.OK, "")
    kernels = {kernel.kernel.split("(")[0]: kernel for kernel in result.kernels}
    assert set(kernels) == {"scale", "rowsum"}
    assert kernels["rowsum"].shared_bytes == 512
    assert kernels["scale"].shared_bytes == 0
    assert all(0 < k.registers < 64 and k.spill_store_bytes == 0 for k in kernels.values())
    text = Path(result.build_dir, "cuda_extension.py").read_text()
    compile(text, "cuda_extension.py", "exec")
    assert "_cuda_getCurrentRawStream" in text


def test_architecture_specific_target_and_spills(compiler, submit, nvcc):
    files = {"kernels/scale.cu": None, "warpsmith.toml": '[compile]\nnvcc_flags = ["-maxrregcount=16"]\n'}
    files["kernels/rowsum.cu"] = (
        "__global__ void heavy(float* x) { float v[48]; for (int i = 0; i < 48; ++i) v[i] = x[i * 32];\n"
        "  for (int k = 0; k < 9; ++k) for (int i = 0; i < 48; ++i) v[i] = v[i] * v[(i * 7 + 1) % 48] + k;\n"
        "  for (int i = 0; i < 48; ++i) x[i * 32 + threadIdx.x] = v[i]; }\n"
        'extern "C" void heavy_launcher(float* x, cudaStream_t s) { heavy<<<1, 32, 0, s>>>(x); }\n'
    )
    result = compiler.build(submit(files), Target(device=Device.CUDA, arch="sm_90a"))
    assert result.status is CompileStatus.OK, result.log
    (kernel,) = result.kernels
    assert kernel.kernel == "heavy(float*)"
    assert kernel.registers <= 24
    assert kernel.spill_store_bytes > 0
    assert kernel.spill_load_bytes > 0


@pytest.mark.parametrize("device", ["sim", "nvcc"])
def test_errors_come_first_with_paths_of_the_submission(compiler, submit, device, request):
    target = request.getfixturevalue(device)
    broken = "static int unused_one(int x) { int never; return x; }\n"
    broken += 'extern "C" void f_launcher(cudaStream_t s) { nope(); }\n'
    files = {"kernels/rowsum.cu": broken, "kernels/scale.cu": "void g() { also_nope(); }\n"}
    result = compiler.build(submit(files), target)
    assert result.status is CompileStatus.FAILED
    assert result.build_dir is None
    lines = result.log.splitlines()
    assert "nope" in result.log
    assert "also_nope" in result.log
    assert any(line.startswith("kernels/rowsum.cu") and "error" in line for line in lines)
    assert "nope" in "\n".join(lines[:3])
    assert "/tmp" not in result.log
    assert str(compiler._cache.root) not in result.log
    assert "n(); }" in result.log or "nope(); }" in result.log


def test_a_missing_header_and_a_missing_definition(compiler, submit, sim):
    result = compiler.build(submit({"kernels/ops.cuh": None}), sim)
    assert result.status is CompileStatus.FAILED
    assert "kernels/scale.cu:2" in result.log
    assert "ops.cuh" in result.log
    lost = {"kernels/scale.cu": 'void lost(); extern "C" void f_launcher(cudaStream_t s) { lost(); }'}
    result = compiler.build(submit(lost), sim)
    assert result.status is CompileStatus.FAILED
    assert "undefined reference to `lost()'" in result.log


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("void f() {}\n", 'no `extern "C" void NAME_launcher('),
        (
            '#if 0\nextern "C" void f_launcher(cudaStream_t s) {}\n#endif\n',
            'no `extern "C" void NAME_launcher(',
        ),
        (
            '#define L(n) extern "C" void n##_launcher(int x, cudaStream_t s) {}\nL(f)\n',
            "signature of f_launcher",
        ),
        ('extern "C" void f_launcher(float* x) {}\n', "cudaStream_t stream` as its last"),
        ('#include "/etc/passwd"\n', 'kernels/k.cu:1: "/etc/passwd" lies outside the submission'),
        ('\n#include "../../x.h"\n', 'kernels/k.cu:2: "../../x.h" lies outside the submission'),
        ("\ud800", "kernels/k.cu is not UTF-8 text"),
    ],
)
def test_faults_told_in_one_line(compiler, sim, text, said):
    result = compiler.build(Submission(files={"model_new.py": "", "kernels/k.cu": text}), sim)
    assert result.status is CompileStatus.FAILED
    assert said in result.log
    assert "\n" not in result.log


@pytest.mark.parametrize(
    "path", ["-x.cu", "@x.cu", "a b.cu", "k/$(touch pwned).cu", "k/`x`.cu", "k/-x.cu", "é.cu"]
)
def test_file_names_that_a_shell_or_compiler_would_misread(compiler, sim, path):
    result = compiler.build(Submission(files={"model_new.py": "", path: "int x;"}), sim)
    assert result.status is CompileStatus.FAILED
    assert "in file names" in result.log


def test_file_in_place_of_a_folder(compiler, sim):
    result = compiler.build(Submission(files={"model_new.py": "", "k.cu": "", "k.cu/x.cu": ""}), sim)
    assert result.status is CompileStatus.FAILED
    assert result.log == "k.cu/x.cu: a file stands where its folder should be"


def test_inline_ptx_is_unsupported_on_sim_only(compiler, submit, sim, nvcc):
    files = {"kernels/scale.cu": None}
    files["kernels/rowsum.cu"] = (
        '__global__ void k(int* x) { int lane; asm("mov.u32 %0, %%laneid;" : "=r"(lane)); x[lane] = lane; }\n'
        'extern "C" void k_launcher(int* x, cudaStream_t s) { k<<<1, 32, 0, s>>>(x); }\n'
    )
    result = compiler.build(submit(files), sim)
    assert result.status is CompileStatus.UNSUPPORTED
    assert result.log.startswith("kernels/rowsum.cu:1")
    assert compiler.build(submit(files), nvcc).status is CompileStatus.OK


def test_flags_reach_the_compiler(compiler, submit, sim, nvcc, load):
    torch = pytest.importorskip("torch")
    text = 'extern "C" void f_launcher(int* x, cudaStream_t s) { *x = WIDTH; }\n'
    files = {"kernels/rowsum.cu": text, "kernels/scale.cu": None}
    assert compiler.build(submit(files), sim).status is CompileStatus.FAILED
    files["warpsmith.toml"] = (
        '[compile]\nnvcc_flags = ["-DWIDTH=42", "--use_fast_math", "-std=c++20", "-O1"]\n'
    )
    out = torch.zeros(1, dtype=torch.int32)
    load(compiler.build(submit(files), sim)).f(out)
    assert out.item() == 42
    result = compiler.build(submit(files), nvcc)
    assert (result.status, result.log) == (CompileStatus.OK, "")


def test_refused_flag_is_a_compile_failure(compiler, submit, sim):
    files = {"warpsmith.toml": '[compile]\nnvcc_flags = ["-Xcompiler=-fplugin=evil.so"]\n'}
    result = compiler.build(submit(files), sim)
    assert result.status is CompileStatus.FAILED
    assert result.log == "warpsmith.toml: nvcc flag '-Xcompiler=-fplugin=evil.so' is not allowed"


def test_single_file_needs_no_build(compiler, sim):
    submission = Submission(files={"model_new.py": "x = 1\n"})
    assert submission.form is SubmissionForm.SINGLE_FILE
    result = compiler.build(submission, sim)
    assert result.status is CompileStatus.OK
    assert list(Path(result.build_dir).iterdir()) == []


def test_timeout_kills_the_whole_tree(tmp_path, submit, sim):
    compiler = LocalCompiler(tmp_path, timeout_s=1.0)
    files = {"kernels/scale.cu": "#include <cuda_runtime.h>\n" + _SLOW, "kernels/rowsum.cu": None}
    result = compiler.build(submit(files), sim)
    assert result.status is CompileStatus.TIMED_OUT
    assert "longer than 1 s" in result.log
    compilers = [
        p for p in psutil.process_iter() if p.name() == "cc1plus" and _cwd(p).startswith(str(tmp_path))
    ]
    # what was killed may take a moment to go; what was not would compile for minutes
    assert psutil.wait_procs(compilers, timeout=20)[1] == []
    assert list((tmp_path / "tmp").iterdir()) == []


def _cwd(process):
    try:
        return process.cwd()
    except psutil.Error:
        return ""


def test_architectures_are_checked_before_the_build(compiler, submit, nvcc):
    with pytest.raises(InfrastructureError, match=r"cannot build for sm_35; it builds for .*sm_90") as caught:
        compiler.build(submit(), Target(device=Device.CUDA, arch="sm_35"))
    assert "CUDA_HOME" in caught.value.hint
    for arch in ("", "90", "sm_90; rm -rf", "compute_90"):
        with pytest.raises(UsageError):
            compiler.build(submit(), Target(device=Device.CUDA, arch=arch))


def test_machines_that_lack_something(tmp_path, submit, monkeypatch):
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.delenv("CXX", raising=False)
    for target in (Target(device=Device.SIM), Target(device=Device.CUDA, arch="sm_90")):
        with pytest.raises(InfrastructureError) as caught:
            LocalCompiler(tmp_path / "cache").build(submit(), target)
        assert "C++ compiler" in str(caught.value)
        assert "g++" in caught.value.hint


def test_cache_that_cannot_be_written(tmp_path, submit, sim):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "cache", Path("/proc/warpsmith-cache")):
        with pytest.raises(InfrastructureError, match="cannot build in the cache folder") as caught:
            LocalCompiler(place).build(submit(), sim)
        assert caught.value.hint


def test_environment_does_not_change_a_build(tmp_path, submit, sim, monkeypatch):
    (tmp_path / "cuda_runtime.h").write_text("#error from CPATH\n")
    monkeypatch.setenv("CPATH", str(tmp_path))
    monkeypatch.setenv("CPLUS_INCLUDE_PATH", str(tmp_path))
    assert LocalCompiler(tmp_path / "cache").build(submit(), sim).status is CompileStatus.OK


_BINDING = """\
#include <torch/types.h>
#include <torch/csrc/utils/pybind.h>
#include <cuda_runtime.h>
#include <c10/cuda/CUDAStream.h>
#include "../binding_registry.h"
extern "C" void scale_launcher(float* out, const float* a, float s, int n, cudaStream_t stream);
static torch::Tensor scale(torch::Tensor a, double s) {
    TORCH_CHECK(a.is_cuda(), "a must be a CUDA tensor");
    auto out = torch::empty_like(a);
    auto stream = c10::cuda::getCurrentCUDAStream().stream();
    scale_launcher(out.data_ptr<float>(), a.data_ptr<float>(), s, a.numel(), stream);
    return out;
}
static void bind(pybind11::module& m) { m.def("scale", &scale, py::arg("a"), py::arg("s")); }
REGISTER_BINDING(scale, bind);
"""


@pytest.mark.slow
def test_workspace_form_on_sim(compiler, shared_cache, submit, sim, load):
    torch = pytest.importorskip("torch")
    files = {"kernels/scale_binding.cpp": _BINDING, "kernels/rowsum.cu": None}
    result = compiler.build(submit(files), sim)
    assert (result.status, result.log) == (CompileStatus.OK, "")
    assert os.listdir(result.build_dir) == ["cuda_extension.so"]
    a = torch.randn(1000)
    torch.testing.assert_close(load(result).scale(a, s=3.0), a * 3)
    objects = set((shared_cache / "objects").glob("*/*"))
    edited = compiler.build(
        submit({**files, "kernels/scale.cu": submit().files["kernels/scale.cu"] + "\n"}), sim
    )
    assert edited.status is CompileStatus.OK
    assert not edited.cached
    made = set((shared_cache / "objects").glob("*/*")) - objects
    assert len(made) == 1, "an edit of a kernel must not compile the binding again"
    lost = compiler.build(submit({**files, "kernels/scale.cu": None, "kernels/rowsum.cu": "int x;"}), sim)
    assert lost.status is CompileStatus.FAILED
    assert lost.log.startswith("undefined: scale_launcher;")


def test_torch_is_found_without_importing_it():
    pytest.importorskip("torch")
    code = (
        "import sys, warpsmith.compile, warpsmith.compile.toolchain as t; t.require_torch(); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.gpu
def test_cuda_build_computes_the_right_values(compiler, submit, nvcc, load):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")
    major, minor = torch.cuda.get_device_capability()
    ext = load(compiler.build(submit(), Target(device=Device.CUDA, arch=f"sm_{major}{minor}")))
    a = torch.randn(37, 300, device="cuda")
    out, sums = torch.empty_like(a), torch.empty(37, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        a.mul_(2)
        # on another stream this would read `a` before it is doubled
        ext.scale(out, a, -2.5, a.numel())
    stream.synchronize()
    torch.testing.assert_close(out, a * -2.5)
    ext.rowsum(sums, a, 37, 300)
    torch.testing.assert_close(sums, a.sum(1), rtol=1e-5, atol=1e-4)
    with pytest.raises(ValueError, match=r"scale: a .* takes a CUDA tensor, got one on cpu"):
        ext.scale(out, a.cpu(), 1.0, 1)
    with pytest.raises(RuntimeError, match=r"scale_launcher: cudaErrorInvalid"):
        ext.scale(out, a, 1.0, -1000)
    ext.scale(out, a, 1.0, a.numel())
    torch.testing.assert_close(out, a)


@pytest.mark.gpu
@pytest.mark.slow
def test_workspace_form_on_cuda(compiler, submit, nvcc, load):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")
    major, minor = torch.cuda.get_device_capability()
    target = Target(device=Device.CUDA, arch=f"sm_{major}{minor}")
    files = {"kernels/scale_binding.cpp": _BINDING, "kernels/rowsum.cu": None}
    result = compiler.build(submit(files), target)
    assert result.status is CompileStatus.OK, result.log
    assert result.kernels[0].registers > 0
    a = torch.randn(1000, device="cuda")
    torch.testing.assert_close(load(result).scale(a, s=3.0), a * 3)
    lost = compiler.build(submit({**files, "kernels/scale.cu": None, "kernels/rowsum.cu": "int x;"}), target)
    assert lost.status is CompileStatus.FAILED
    assert lost.log.startswith("undefined: scale_launcher;")
