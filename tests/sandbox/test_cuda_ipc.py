"""GPU memory of a process outside is read and written by one in the sandbox."""

import socket
import sys
from pathlib import Path

import pytest

from warpsmith.sandbox import SANDBOXES, LocalSandbox, python_paths
from warpsmith.sandbox.process import Tree
from warpsmith.types.protocols import SandboxSpec

# the driver's own interface: needs nothing but the driver
DRIVER = """
import ctypes, socket, sys
cuda = ctypes.CDLL('libcuda.so.1')
class Handle(ctypes.Structure):
    _fields_ = [('bytes', ctypes.c_ubyte * 64)]
def check(status):
    assert status == 0, f'CUDA error {status}'
def context():
    device, context = ctypes.c_int(), ctypes.c_void_p()
    check(cuda.cuInit(0)); check(cuda.cuDeviceGet(ctypes.byref(device), 0))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)); check(cuda.cuCtxSetCurrent(context))
"""
OUTSIDE = (
    DRIVER
    + """
context()
memory, handle, data = ctypes.c_uint64(), Handle(), ctypes.create_string_buffer(b'inputs', 64)
check(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(64)))
check(cuda.cuMemcpyHtoD_v2(memory, data, ctypes.c_size_t(64)))
check(cuda.cuIpcGetMemHandle(ctypes.byref(handle), memory))
s = socket.socket(fileno=int(sys.argv[1])); s.send(bytes(handle)); s.recv(1)
check(cuda.cuMemcpyDtoH_v2(data, memory, ctypes.c_size_t(64)))
print(data.value.decode())
"""
)
INSIDE = (
    DRIVER
    + """
s = socket.socket(fileno=int(sys.argv[1])); raw = s.recv(64)
context()
memory, handle, data = ctypes.c_uint64(), Handle.from_buffer_copy(raw), ctypes.create_string_buffer(64)
check(cuda.cuIpcOpenMemHandle_v2(ctypes.byref(memory), handle, ctypes.c_uint(1)))
check(cuda.cuMemcpyDtoH_v2(data, memory, ctypes.c_size_t(64)))
data.value = data.value.upper()
check(cuda.cuMemcpyHtoD_v2(memory, data, ctypes.c_size_t(64)))
check(cuda.cuIpcCloseMemHandle(memory)); s.send(b'x')
"""
)


@pytest.mark.gpu
@pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no NVIDIA GPU")
@pytest.mark.parametrize("kind", SANDBOXES, ids=lambda kind: kind.name)
def test_memory_is_shared_across_the_sandbox(kind, tmp_path):
    sandbox = kind()
    if reason := sandbox.unavailable():
        pytest.skip(reason)
    read_only = () if kind is LocalSandbox else python_paths()
    spec = SandboxSpec(cwd="/tmp", read_only=read_only, gpu=True)
    one, other = socket.socketpair()
    with one, other:
        python = [sys.executable, "-I", "-S", "-c"]
        inside = sandbox.command([*python, INSIDE, str(other.fileno())], spec)
        with (
            Tree([*python, OUTSIDE, str(one.fileno())], pass_fds=(one.fileno(),)) as parent,
            Tree(inside, pass_fds=(other.fileno(),)) as child,
        ):
            other.close()
            ended = child.wait(60) or child.kill_tree(timed_out=True)
            assert ended.ok, ended.output
            end = parent.wait(60) or parent.kill_tree(timed_out=True)
    assert end.ok and end.output == "INPUTS\n", end.output
