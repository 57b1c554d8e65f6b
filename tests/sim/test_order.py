"""Orders of threads: a missing barrier shows, and is said in words; right kernels do not depend on them."""

import ctypes
import math
import os

import pytest

from warpsmith.sim import order

KERNELS = r"""
#include <cuda_runtime.h>
__global__ void reverse(const float* x, float* y, bool wait) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    if (wait) __syncthreads();
    y[threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void neighbour(float* x, bool wait) {
    float left = threadIdx.x ? x[threadIdx.x - 1] : 0.0f;
    if (wait) __syncthreads();
    x[threadIdx.x] += left;
}
__global__ void last_writer(int* y) { y[0] = threadIdx.x; }
__global__ void earlier_blocks(int* y) { y[blockIdx.x] = blockIdx.x ? y[blockIdx.x - 1] + 1 : 0; }
extern "C" void reverse_launcher(const float* x, float* y, int wait) { reverse<<<1, 64>>>(x, y, wait); }
extern "C" void neighbour_launcher(float* x, int wait) { neighbour<<<1, 64>>>(x, wait); }
extern "C" void last_launcher(int* y) { last_writer<<<1, 64>>>(y); }
extern "C" void blocks_launcher(int* y) { earlier_blocks<<<8, 1>>>(y); }
"""


@pytest.fixture
def library(build, monkeypatch: pytest.MonkeyPatch) -> ctypes.CDLL:
    monkeypatch.setenv("WARPSMITH_SIM_THREADS", "1")
    return build(KERNELS).library


def test_every_order_and_what_it_shows(library: ctypes.CDLL) -> None:
    source = [float(i) for i in range(64)]

    def reversed_with(wait: int) -> list[float]:
        x, y = (ctypes.c_float * 64)(*source), (ctypes.c_float * 64)()
        library.reverse_launcher(x, y, wait)
        return list(y)

    def shifted(wait: int) -> list[float]:
        x = (ctypes.c_float * 64)(*source)
        library.neighbour_launcher(x, wait)
        return list(x)

    assert order.dependence(lambda: reversed_with(1), list.__eq__) is None
    assert order.dependence(lambda: shifted(1), list.__eq__) is None
    assert shifted(1) == [source[i] + (source[i - 1] if i else 0) for i in range(64)]
    for value in order.ORDERS:
        with order.using(value):
            assert any(math.isnan(v) for v in reversed_with(0))
    found = order.dependence(lambda: shifted(0), list.__eq__)
    assert found is not None and found.startswith("depends on thread order: a barrier is missing")

    y = (ctypes.c_int * 8)()
    last = []
    for value in (0, 1, 7):
        with order.using(value):
            library.last_launcher(y)
            last.append(y[0])
    assert last[:2] == [63, 0] and 0 < last[2] < 63

    library.blocks_launcher(y)
    assert list(y) == list(range(8))
    y = (ctypes.c_int * 8)()
    with order.using(order.FORWARD, blocks_reversed=True):
        library.blocks_launcher(y)
    assert list(y) == [0] + [1] * 7


def test_using_puts_back_what_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(order.ORDER_VARIABLE, "3")
    monkeypatch.delenv(order.BLOCKS_VARIABLE, raising=False)
    with order.using(9, blocks_reversed=True):
        assert (os.environ[order.ORDER_VARIABLE], os.environ[order.BLOCKS_VARIABLE]) == ("9", "1")
    assert os.environ[order.ORDER_VARIABLE] == "3"
    assert order.BLOCKS_VARIABLE not in os.environ
    with pytest.raises(ValueError, match="0 or more"):
        order.use(-1)
