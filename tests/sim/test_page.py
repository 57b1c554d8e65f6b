"""The judge's settings reach a library whatever the environment says, and nobody but the judge can change them."""

import errno
import json
import os
import subprocess
import sys
from contextlib import closing

from warpsmith.sim import order, page

KERNELS = r"""
#include <cublas_v2.h>
#include <cuda_runtime.h>
__global__ void last_writer(int* y) { y[0] = threadIdx.x; }
__global__ void shared_word(int* y) {
    __shared__ int word;
    y[0] = word;
}
extern "C" void last_launcher(int* y) { last_writer<<<1, 64>>>(y); }
extern "C" void word_launcher(int* y) { shared_word<<<1, 1>>>(y); }
extern "C" int product_launcher(float* c) {
    float one = 2.0f, none = 0.0f;
    cublasHandle_t handle;
    cublasCreate(&handle);
    return cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, &one, 1, &one, 1, &none, c, 1);
}
"""

READER = """
import ctypes, json, sys
from warpsmith.sim import page
library, given = ctypes.CDLL(sys.argv[1]), int(sys.argv[2])
page.enter(given)
for line in sys.stdin:
    y, c = ctypes.c_int(-7), ctypes.c_float(-7.0)
    library.last_launcher(ctypes.byref(y))
    last = y.value
    library.word_launcher(ctypes.byref(y))
    library.product_launcher(ctypes.byref(c))
    print(json.dumps([last, y.value, c.value]), flush=True)
"""


def test_a_library_does_what_the_page_says(build) -> None:
    built = build(KERNELS)
    environment = {**os.environ, order.ORDER_VARIABLE: "1", "WARPSMITH_SIM_ZEROED": "1"}
    with closing(page.Page()) as settings:
        argv = [sys.executable, "-c", READER, str(built.path), str(settings.fd)]
        with subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=(settings.fd,),
            env=environment,
        ) as reader:

            def said(**words: object) -> list:
                settings.set(**words)
                reader.stdin.write("\n")
                reader.stdin.flush()
                return json.loads(reader.stdout.readline())

            assert said() == [63, -1, 8.0]
            assert said(order=order.REVERSE) == [0, 0x7FFF7FFF, 8.0]
            assert said(zeroed=True) == [63, 0, 8.0]
            assert said(disarmed=True) == [-7, -7, -7.0]
            assert said() == [63, -1, 8.0]
            reader.stdin.close()


CHANGES = """
import ctypes, mmap, os, sys
from warpsmith.sim import page
fd = int(sys.argv[1])
again = os.dup(fd)
page.enter(fd)
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
errors = []
for write in (
    lambda: mmap.mmap(again, mmap.PAGESIZE),
    lambda: os.write(again, b"x"),
    lambda: os.ftruncate(again, 0),
):
    try:
        write()
    except OSError as error:
        errors.append(error.errno)
errors.append(libc.mprotect(ctypes.c_void_p(page.ADDRESS), ctypes.c_size_t(mmap.PAGESIZE), 3))
print(*errors)
"""


def test_the_other_side_cannot_write_the_page() -> None:
    with closing(page.Page()) as settings:
        argv = [sys.executable, "-c", CHANGES, str(settings.fd)]
        done = subprocess.run(argv, capture_output=True, text=True, pass_fds=(settings.fd,), check=True)
        assert done.stdout.split() == [str(errno.EPERM)] * 3 + ["-1"]
