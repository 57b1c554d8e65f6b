"""Generated bindings, against a library built by the host compiler alone: values, refusals, speed."""

import importlib.util
import shutil
import subprocess
import sys
import time

import pytest

from warpsmith.compile.binding import LIBRARY, MODULE, write_binding
from warpsmith.compile.launchers import find_launchers
from warpsmith.types import Device

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

_LIBRARY = r"""
#include <cstdint>
#include <cstring>
#include <cstdio>
typedef void* cudaStream_t;
struct half { unsigned short bits; };
struct __nv_bfloat16 { unsigned short bits; };
struct alignas(16) float4 { float x, y, z, w; };
static int pending = 0;
extern "C" int warpsmith_take_error(char* message, unsigned long size) {
    int code = pending;
    if (code) snprintf(message, size, "error %d", code);
    pending = 0;
    return code;
}
extern "C" void axpy_launcher(float* out, const float* in, const float* b, float lambda, int64_t n, cudaStream_t s) {
    for (int64_t i = 0; i < n; ++i) out[i] = lambda * in[i] + (b ? b[i] : 0.0f);
}
extern "C" void scalars_launcher(double* out, int8_t a, unsigned char b, short c, unsigned d, long long e, size_t f,
                                 bool g, double h, half i, __nv_bfloat16 j, cudaStream_t s) {
    out[0] = a; out[1] = b; out[2] = c; out[3] = d; out[4] = e; out[5] = f; out[6] = g; out[7] = h;
    out[8] = i.bits; out[9] = j.bits; out[10] = s == nullptr;
}
extern "C" void fill_launcher(void* out, int bytes, int value = 7, cudaStream_t s = 0) { memset(out, value, bytes); }
extern "C" void vec_launcher(float4* x, cudaStream_t s) { x[0].w = 4; }
extern "C" void mixed_launcher(half* a, __nv_bfloat16* b, bool* c, uint8_t* d, int64_t* e, cudaStream_t s) {}
extern "C" void fail_launcher(cudaStream_t s) { pending = 9; }
extern "C" void import_launcher(int from, int device, int fits, cudaStream_t s) { pending = from + device + fits; }
"""


@pytest.fixture(scope="module")
def ext(tmp_path_factory):
    folder = tmp_path_factory.mktemp("binding")
    source = folder / "k.cpp"
    source.write_text(_LIBRARY)
    subprocess.run(["g++", "-shared", "-fPIC", "-O2", "-w", "-o", folder / LIBRARY, source], check=True)
    (folder / MODULE).write_text(write_binding(find_launchers({"k.cu": _LIBRARY}), Device.SIM))
    spec = importlib.util.spec_from_file_location("generated_extension", folder / MODULE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_values_and_null_pointers(ext):
    a, b, out = torch.randn(1000), torch.randn(1000), torch.empty(1000)
    ext.axpy(out, a, b, 2.5, 1000)
    torch.testing.assert_close(out, 2.5 * a + b)
    ext.axpy(out=out, in_=a, b=None, lambda_=-1, n=1000)
    torch.testing.assert_close(out, -a)
    ext.axpy(torch.nn.Parameter(out), a, None, 3.0, 0)


def test_every_scalar_type_arrives(ext):
    out = torch.zeros(11, dtype=torch.float64)
    ext.scalars(out, -128, 255, -32768, 2**32 - 1, -(2**53), 2**53, True, 1e-300, 1.5, -2.0)
    half, bfloat16 = (
        int(torch.tensor(v, dtype=t).view(torch.int16)) & 0xFFFF
        for v, t in ((1.5, torch.float16), (-2.0, torch.bfloat16))
    )
    expected = [-128, 255, -32768, 2**32 - 1, -(2**53), 2**53, 1, 1e-300, half, bfloat16, 1]
    assert out.tolist() == expected


@pytest.mark.parametrize("value", [0.1, -3.3, 65504.0, 1e-8, 70000.0, -1e38, float("inf"), float("nan"), 0.0])
def test_half_and_bfloat16_round_as_torch_does(ext, value):
    out = torch.zeros(11, dtype=torch.float64)
    ext.scalars(out, 0, 0, 0, 0, 0, 0, False, 0.0, value, value)
    for slot, dtype in ((8, torch.float16), (9, torch.bfloat16)):
        bits = int(out[slot])
        got = torch.tensor(bits - (bits >> 15 << 16), dtype=torch.int16).view(dtype)
        torch.testing.assert_close(got, torch.tensor(value).to(dtype), rtol=0, atol=0, equal_nan=True)


def test_void_pointer_takes_any_dtype_and_defaults_hold(ext):
    for dtype in (torch.uint8, torch.float64, torch.bool, torch.complex64):
        x = torch.zeros(4, dtype=dtype)
        ext.fill(x, 4 * x.element_size())
        assert set(x.view(torch.uint8).tolist()) == {7}
    ext.fill(x, 4, value=1)


def _refused(ext, kind, function, *arguments):
    with pytest.raises(kind) as caught:
        getattr(ext, function)(*arguments)
    return str(caught.value)


def test_tensor_refusals_name_the_argument(ext):
    a, out = torch.randn(8), torch.empty(8)
    wrong = _refused(ext, TypeError, "axpy", out, a.double(), None, 1.0, 8)
    assert wrong == "axpy: in_ (`const float* in`) takes a tensor of torch.float32, got torch.float64"
    assert "out (" in _refused(ext, ValueError, "axpy", torch.empty(8, 2)[:, 0], a, None, 1.0, 8)
    assert "contiguous" in _refused(ext, ValueError, "axpy", out, torch.randn(4, 4).t(), None, 1.0, 8)
    assert "got list" in _refused(ext, TypeError, "axpy", out, [1.0], None, 1.0, 8)
    assert "got int" in _refused(ext, TypeError, "axpy", out, a.data_ptr(), None, 1.0, 8)
    assert "got ndarray" in _refused(ext, TypeError, "axpy", out, a.numpy(), None, 1.0, 8)
    assert "contiguous" in _refused(ext, ValueError, "axpy", out, a.to_sparse(), None, 1.0, 8)
    assert "16 bytes" in _refused(ext, ValueError, "vec", torch.zeros(9)[1:])
    ext.vec(torch.zeros(4))


@pytest.mark.parametrize("wrong", range(5))
def test_each_pointer_type_takes_its_own_dtype_only(ext, wrong):
    dtypes = [torch.float16, torch.bfloat16, torch.bool, torch.uint8, torch.int64]
    tensors = [torch.zeros(1, dtype=dtype) for dtype in dtypes]
    ext.mixed(*tensors)
    tensors[wrong] = torch.zeros(1, dtype=dtypes[(wrong + 1) % 5])
    assert f"mixed: {'abcde'[wrong]} (" in _refused(ext, TypeError, "mixed", *tensors)


def test_number_refusals(ext):
    out = torch.empty(8)
    assert "n (`int64_t n`) takes an int, got float" in _refused(
        ext, TypeError, "axpy", out, out, None, 1.0, 8.0
    )
    assert "takes an int, got NoneType" in _refused(ext, TypeError, "axpy", out, out, None, 1.0, None)
    assert "lambda_ (`float lambda`) takes a float" in _refused(
        ext, TypeError, "axpy", out, out, None, "x", 8
    )
    assert "cannot hold 2147483648" in _refused(ext, ValueError, "fill", out, 2**31)
    assert "cannot hold -1" in _refused(
        ext, ValueError, "scalars", out.double(), 0, 0, 0, -1, 0, 0, False, 0.0, 0.0, 0.0
    )
    with pytest.raises(TypeError):
        ext.fill(out)


def test_launch_errors_are_raised_once(ext):
    assert _refused(ext, RuntimeError, "fail") == "fail_launcher: error 9"
    ext.vec(torch.zeros(4))
    assert _refused(ext, RuntimeError, "import_", 1, 2, 3) == "import_launcher: error 6"


def test_a_name_that_is_not_there_is_answered_with_those_that_are(ext):
    with pytest.raises(AttributeError, match=r"no add_launcher, it has: .*\bNAME_launcher is called as NAME"):
        _ = ext.add_launcher
    assert not hasattr(ext, "add_launcher")


def test_a_call_costs_little(ext):
    a, b, out = torch.randn(4), torch.randn(4), torch.empty(4)
    best = float("inf")
    for _ in range(20):
        started = time.perf_counter()
        for _ in range(500):
            ext.axpy(out, a, b, 2.5, 4)
        best = min(best, (time.perf_counter() - started) / 500)
    print(f"{best * 1e6:.2f} us a call")
    # the goal is 5 µs; the margin is for a busy machine
    assert best < 20e-6
