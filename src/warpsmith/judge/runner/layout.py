"""How tensors lie in a shared buffer, told in JSON. Used on both sides; torch and the standard library only."""

import math
from dataclasses import dataclass

import torch

from warpsmith.judge.runner.values import dtype_name

ALIGN = 512
MOST = 1 << 60
"""Elements, strides and offsets below this fit into torch's own numbers, whatever the dtype."""
DTYPES: dict[str, torch.dtype] = {
    dtype_name(d): d
    for d in (
        torch.float64, torch.float32, torch.float16, torch.bfloat16,
        torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
        torch.complex64, torch.complex128,
    )
}  # fmt: skip


@dataclass(frozen=True)
class TensorLayout:
    """One dense or strided tensor at `offset` bytes from a buffer's start; strides in elements."""

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    def extent_bytes(self) -> int:
        """Bytes from `offset` to the end of the last element; 0 for an empty tensor."""
        if 0 in self.shape:
            return 0
        last = sum((n - 1) * s for n, s in zip(self.shape, self.stride, strict=True))
        return (last + 1) * DTYPES[self.dtype].itemsize

    def of_dtype(self) -> torch.dtype:
        """The torch dtype."""
        return DTYPES[self.dtype]

    def to_json(self) -> dict:
        """Plain values."""
        # dataclasses.asdict copies deeply, which takes as long as all the rest of naming an output.
        return {
            "dtype": self.dtype, "shape": list(self.shape), "stride": list(self.stride), "offset": self.offset,
        }  # fmt: skip

    @classmethod
    def from_json(cls, value: object) -> "TensorLayout":
        """Strict: raises ValueError on anything that is not a layout of natural numbers."""
        if not isinstance(value, dict) or set(value) != {"dtype", "shape", "stride", "offset"}:
            raise ValueError("not a tensor layout")
        shape, stride, offset = value["shape"], value["stride"], value["offset"]
        naturals = (
            [*shape, *stride, offset] if isinstance(shape, list) and isinstance(stride, list) else [None]
        )
        if any(type(n) is not int or n < 0 for n in naturals) or len(shape) != len(stride) or len(shape) > 32:
            raise ValueError("shape, stride and offset must be natural numbers")
        if max(math.prod(max(1, n) for n in shape), *naturals) >= MOST:
            raise ValueError("a tensor of more elements than can be counted")
        if type(value["dtype"]) is not str or value["dtype"] not in DTYPES:
            raise ValueError("unknown dtype")
        return cls(value["dtype"], tuple(shape), tuple(stride), offset)

    def of(self, buffer: torch.Tensor) -> torch.Tensor:
        """The tensor over `buffer` (uint8 [n]). ValueError where it would reach outside."""
        extent = self.extent_bytes()
        dtype = DTYPES[self.dtype]
        if extent == 0:
            return torch.empty(self.shape, dtype=dtype, device=buffer.device)
        if self.offset + extent > buffer.numel() or self.offset % dtype.itemsize:
            raise ValueError("tensor reaches outside its buffer")
        flat = buffer[self.offset : self.offset + extent].view(dtype)
        return torch.as_strided(flat, self.shape, self.stride)


def layout_of(tensor: torch.Tensor, offset: int) -> TensorLayout:
    """The layout of `tensor` as it is, placed at `offset` bytes."""
    dtype = dtype_name(tensor.dtype)
    return TensorLayout(dtype, tuple(tensor.shape), tuple(tensor.stride()), offset)


def is_dense(tensor: torch.Tensor) -> bool:
    """True where the tensor covers its extent once, in any order of dimensions."""
    covered = 1
    for stride, size in sorted((s, n) for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n != 1):
        if stride != covered:
            return False
        covered *= size
    return True


def contiguous_stride(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    stride, step = [], 1
    for size in reversed(shape):
        stride.append(step)
        step *= max(1, size)
    return tuple(reversed(stride))


def pack(tensors: list[torch.Tensor]) -> tuple[list[TensorLayout], int]:
    """Places for copies of `tensors` in one buffer, and its size in bytes (at least ALIGN).

    A dense tensor keeps its order of dimensions; any other is laid out row-major.
    """
    layouts, offset = [], 0
    for tensor in tensors:
        shape = tuple(tensor.shape)
        stride = tuple(tensor.stride()) if is_dense(tensor) else contiguous_stride(shape)
        layouts.append(TensorLayout(dtype_name(tensor.dtype), shape, stride, offset))
        offset += math.ceil(max(1, tensor.numel() * tensor.element_size()) / ALIGN) * ALIGN
    return layouts, max(offset, ALIGN)
