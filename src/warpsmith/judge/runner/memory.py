"""Buffers that referee and runner share: CUDA IPC on a GPU, memfd on the simulator.

Both sides use this file. A buffer's allocation holds nothing but what is meant to be shared: exporting a pointer
from a caching allocator would show its whole segment, the expected outputs with it.
"""

import ctypes
import fcntl
import mmap
import os
from dataclasses import dataclass
from functools import cache

import torch

HANDLE_BYTES = 64
_BUFFER_ID = 7
"""CU_POINTER_ATTRIBUTE_BUFFER_ID of cuda.h."""


class CudaDriverError(RuntimeError):
    """A driver call failed; `code` is the CUresult."""

    def __init__(self, call: str, code: int):
        super().__init__(f"{call} failed with CUDA driver error {code}")
        self.code = code


class _IpcHandle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_ubyte * HANDLE_BYTES)]


@cache
def _driver() -> ctypes.CDLL:
    lib = ctypes.CDLL("libcuda.so.1")
    pointer, size = ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_size_t)
    lib.cuMemAlloc_v2.argtypes = [pointer, ctypes.c_size_t]
    lib.cuMemFree_v2.argtypes = [ctypes.c_uint64]
    lib.cuIpcGetMemHandle.argtypes = [ctypes.POINTER(_IpcHandle), ctypes.c_uint64]
    lib.cuIpcOpenMemHandle_v2.argtypes = [pointer, _IpcHandle, ctypes.c_uint]
    lib.cuIpcCloseMemHandle.argtypes = [ctypes.c_uint64]
    lib.cuMemGetAddressRange_v2.argtypes = [pointer, size, ctypes.c_uint64]
    lib.cuPointerGetAttribute.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64]
    return lib


def _check(call: str, code: int) -> None:
    if code:
        raise CudaDriverError(call, code)


@dataclass(frozen=True)
class _DevicePointer:
    """What `torch.as_tensor` reads to wrap foreign device memory without a copy."""

    address: int
    nbytes: int

    @property
    def __cuda_array_interface__(self) -> dict:
        return {
            "shape": (self.nbytes,), "typestr": "|u1", "data": (self.address, False),
            "strides": None, "version": 3,
        }  # fmt: skip


def address_range(address: int) -> tuple[int, int]:
    """Start and size in bytes of the allocation that `address` lies in."""
    base, size = ctypes.c_uint64(), ctypes.c_size_t()
    _check("cuMemGetAddressRange", _driver().cuMemGetAddressRange_v2(base, size, address))
    return base.value, size.value


def buffer_ids(addresses: list[int]) -> list[int]:
    """For each address the number of its allocation: no other of this process, earlier or later, has the same."""
    found, ids = ctypes.c_ulonglong(), []
    get, place = _driver().cuPointerGetAttribute, ctypes.addressof(found)
    for address in addresses:
        _check("cuPointerGetAttribute", get(place, _BUFFER_ID, address))
        ids.append(found.value)
    return ids


def ipc_handle(address: int) -> str:
    """The IPC handle of the allocation that `address` lies in, in hex."""
    handle = _IpcHandle()
    _check("cuIpcGetMemHandle", _driver().cuIpcGetMemHandle(handle, address))
    return bytes(handle.reserved).hex()


class CudaBuffer:
    """A device allocation of its own, as a uint8 tensor `bytes` [n], exported by `handle`."""

    def __init__(self, nbytes: int):
        torch.cuda.current_stream()
        torch.empty(1, device="cuda")  # makes torch's context current on this thread
        address = ctypes.c_uint64()
        _check("cuMemAlloc", _driver().cuMemAlloc_v2(address, nbytes))
        self._address = address.value
        self.nbytes = nbytes
        self.bytes = torch.as_tensor(_DevicePointer(self._address, nbytes), device="cuda")
        self.handle = ipc_handle(self._address)

    def describe(self) -> tuple[dict, list[int]]:
        """JSON and descriptors for the other side's `attach`."""
        return {"cuda": self.handle, "nbytes": self.nbytes}, []

    def close(self) -> None:
        """Free the memory."""
        del self.bytes
        _check("cuMemFree", _driver().cuMemFree_v2(self._address))


class CudaImports:
    """Allocations of another process, opened once each. Sizes come from the driver, never from the sender."""

    def __init__(self) -> None:
        self._open: dict[str, torch.Tensor] = {}

    def open(self, handle: str) -> torch.Tensor:
        """uint8 [n] over the whole allocation. ValueError for a malformed handle, CudaDriverError for a bad one."""
        if handle not in self._open:
            raw = bytes.fromhex(handle)
            if len(raw) != HANDLE_BYTES:
                raise ValueError("an IPC handle has 64 bytes")
            address = ctypes.c_uint64()
            torch.empty(1, device="cuda")
            code = _driver().cuIpcOpenMemHandle_v2(address, _IpcHandle.from_buffer_copy(raw), 1)
            _check("cuIpcOpenMemHandle", code)
            _, size = address_range(address.value)
            self._open[handle] = torch.as_tensor(_DevicePointer(address.value, size), device="cuda")
        return self._open[handle]

    def close(self) -> None:
        """Unmap everything."""
        for tensor in self._open.values():
            _driver().cuIpcCloseMemHandle(tensor.data_ptr())
        self._open.clear()


class HostBuffer:
    """A memfd mapped as a uint8 tensor `bytes` [n]; its size is sealed."""

    def __init__(self, nbytes: int):
        self._fd = os.memfd_create("warpsmith", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self._fd, nbytes)
        # Cut short by the other side, reading it here would end this process with SIGBUS.
        fcntl.fcntl(self._fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        self.nbytes = nbytes
        self.bytes = map_host(self._fd, nbytes)

    def describe(self) -> tuple[dict, list[int]]:
        """JSON and descriptors for the other side's `attach`."""
        return {"host": self.nbytes}, [self._fd]

    def close(self) -> None:
        """Unmap and close."""
        del self.bytes
        os.close(self._fd)


def map_host(fd: int, nbytes: int) -> torch.Tensor:
    """uint8 [nbytes] over a memfd, shared and writable."""
    return torch.frombuffer(mmap.mmap(fd, nbytes), dtype=torch.uint8)


def new_buffer(device: str, nbytes: int) -> CudaBuffer | HostBuffer:
    """A buffer of at least one byte on `cuda` or `cpu`."""
    return CudaBuffer(max(1, nbytes)) if device == "cuda" else HostBuffer(max(1, nbytes))
