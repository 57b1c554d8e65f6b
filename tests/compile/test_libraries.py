"""cuBLAS, cuDNN and their like: found in the toolkit or in wheels, linked so that the loader finds them again."""

import subprocess
from pathlib import Path

import pytest

from warpsmith.compile import LocalCompiler
from warpsmith.compile.libraries import include_folders, link_flags, wanted_libraries
from warpsmith.compile.toolchain import CudaToolkit, require_cuda, require_cxx
from warpsmith.errors import InfrastructureError
from warpsmith.types import CompileStatus, Submission

_KERNEL = """
#include <cuda_runtime.h>
#include <cublas_v2.h>
extern "C" void version_launcher(int* out, cudaStream_t stream) { cublasGetVersion_v2(0, out); }
"""


@pytest.fixture
def toolkit(tmp_path):
    """A toolkit with cuFFT and a stub of the driver."""
    for path in ("include/cufft.h", "lib/libcufft.so", "lib/stubs/libcuda.so"):
        (tmp_path / "toolkit" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "toolkit" / path).touch()
    root = tmp_path / "toolkit"
    return CudaToolkit(root / "bin/nvcc", "13.0", root / "include", root / "lib", ("sm_90",))


@pytest.fixture
def wheel(tmp_path):
    """A package as NVIDIA's: cuBLAS, its library under a versioned name alone."""
    folder = tmp_path / "site" / "nvidia" / "cu13"
    for path in ("include/cublas_v2.h", "include/cufft.h", "lib/libcublas.so.13", "lib/libcublasLt.so.13"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).touch()
    return folder


def test_the_toolkit_comes_first_and_wheels_fill_in(toolkit, wheel):
    files = {"a.cu": "#include <cufft.h>\n", "b.cuh": '  #  include "cublas_v2.h"\n', "c.cu": "// cudnn.h\n"}
    assert wanted_libraries(files, toolkit, [wheel]) == {"cufft", "cublas"}
    assert include_folders(toolkit, [wheel, wheel.parent / "other"]) == (wheel / "include",)
    assert link_flags(["cufft", "cublas", "cuda", "nvrtc"], toolkit, [wheel]) == (
        f"{wheel}/lib/libcublas.so.13",
        f"-Wl,-rpath,{wheel}/lib",
        f"-L{toolkit.lib}/stubs",
        "-lcuda",
        "-lcufft",
        f"-Wl,-rpath,{toolkit.lib}",
        "-lnvrtc",
    )


def test_a_library_that_is_not_installed_is_not_the_submissions_fault(toolkit):
    if any(Path(folder, "cudnn.h").exists() for folder in ("/usr/include", "/usr/include/x86_64-linux-gnu")):
        pytest.skip("cuDNN is installed here")
    with pytest.raises(InfrastructureError, match=r"include cudnn\.h, which is not installed here") as caught:
        wanted_libraries({"a.cu": "#include <cudnn.h>\n"}, toolkit, [])
    assert "install cudnn" in caught.value.hint
    asked = "#if __has_include(<cudnn.h>)\n#include <cudnn.h>\n#endif\n"
    assert wanted_libraries({"a.cu": asked}, toolkit, []) == frozenset()
    assert wanted_libraries({"a.cu": '#include "cudnn.h"\n', "cudnn.h": ""}, toolkit, []) == frozenset()


def test_a_kernel_is_compiled_and_linked_with_a_wheels_library(tmp_path, nvcc, wheel, monkeypatch):
    if (require_cuda().include / "cublas_v2.h").exists():
        pytest.skip("the toolkit has cuBLAS")
    (wheel / "include" / "cublas_v2.h").write_text('extern "C" int cublasGetVersion_v2(void*, int*);\n')
    library = wheel / "lib" / "libcublas.so.13"
    source = tmp_path / "cublas.cpp"
    source.write_text('extern "C" int cublasGetVersion_v2(void*, int* out) { *out = 13; return 0; }\n')
    subprocess.run(
        [require_cxx(), "-shared", "-fPIC", "-Wl,-soname,libcublas.so.13", "-o", library, source], check=True
    )
    monkeypatch.syspath_prepend(wheel.parent.parent)
    submission = Submission(files={"model_new.py": "import cuda_extension\n", "k.cu": _KERNEL})
    result = LocalCompiler(tmp_path / "cache").build(submission, nvcc)
    assert (result.status, result.log) == (CompileStatus.OK, "")
    dynamic = subprocess.run(
        ["readelf", "-d", Path(result.build_dir, "libcuda_extension.so")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "[libcublas.so.13]" in dynamic
    assert f"[{wheel}/lib]" in dynamic
