"""Small submissions to build, and what this machine can build them with."""

import importlib.util
import sys

import pytest

from warpsmith.compile import LocalCompiler
from warpsmith.compile.toolchain import find_cxx, find_nvcc
from warpsmith.errors import InfrastructureError
from warpsmith.sim.toolchain import SimToolchain
from warpsmith.types import Device, Submission, Target

SCALE = """\
#include <cuda_runtime.h>
#include "ops.cuh"
__global__ void scale(float* out, const float* a, float s, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = apply(a[i], s);
}
extern "C" void scale_launcher(float* out, const float* a, float s, int n, cudaStream_t stream) {
    scale<<<(n + 255) / 256, 256, 0, stream>>>(out, a, s, n);
}
"""
ROWSUM = """\
#include <cuda_runtime.h>
__global__ void rowsum(float* out, const float* a, int columns) {
    __shared__ float part[128];
    float sum = 0;
    for (int j = threadIdx.x; j < columns; j += 128) sum += a[(long)blockIdx.x * columns + j];
    part[threadIdx.x] = sum;
    for (int step = 64; step; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
extern "C" void rowsum_launcher(float* out, const float* a, int rows, int columns, cudaStream_t stream) {
    rowsum<<<rows, 128, 0, stream>>>(out, a, columns);
}
"""
FILES = {
    "model_new.py": "import cuda_extension\n",
    "kernels/scale.cu": SCALE,
    "kernels/rowsum.cu": ROWSUM,
    "kernels/ops.cuh": "#pragma once\n__device__ inline float apply(float x, float s) { return x * s; }\n",
}
SIM = Target(device=Device.SIM)
SM90 = Target(device=Device.CUDA, arch="sm_90")


def _sim_works() -> bool:
    try:
        toolchain = SimToolchain()
        toolchain.cxx()
        toolchain.compile_flags()
    except InfrastructureError:
        return False
    return True


def pytest_collection_modifyitems(items):
    have = {"nvcc": find_nvcc() is not None and find_cxx() is not None, "sim": _sim_works()}
    for item in items:
        for name in ("nvcc", "sim"):
            if name in getattr(item, "fixturenames", ()) and not have[name]:
                item.add_marker(pytest.mark.skip(reason=f"this machine cannot build for {name}"))


@pytest.fixture
def nvcc():
    """The target of a machine with nvcc; the test is skipped without."""
    return SM90


@pytest.fixture
def sim():
    """The simulator as target; the test is skipped where it cannot be built for."""
    return SIM


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory):
    """One cache for the tests that do not look at it, so that unchanged units are compiled once.

    Its parent may be given to a command as WARPSMITH_CACHE.
    """
    folder = tmp_path_factory.mktemp("caches") / "compile"
    folder.mkdir()
    return folder


@pytest.fixture
def compiler(shared_cache):
    return LocalCompiler(shared_cache)


@pytest.fixture
def submit():
    """Makes a submission of the shipped kernels, with files changed or added (None removes)."""

    def make(changes=None, base=FILES):
        files = {**base, **(changes or {})}
        return Submission(files={path: text for path, text in files.items() if text is not None})

    return make


@pytest.fixture
def load(tmp_path):
    """Imports a built `cuda_extension` from a copy, under a name of its own."""
    import shutil

    def imported(result):
        folder = tmp_path / f"import-{result.key[:12]}"
        shutil.copytree(result.build_dir, folder)
        path = folder / "cuda_extension.py"
        name = f"cuda_extension_{result.key[:12]}"
        if not path.exists():
            path, name = folder / "cuda_extension.so", "cuda_extension"
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        if name != "cuda_extension":
            sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    return imported
