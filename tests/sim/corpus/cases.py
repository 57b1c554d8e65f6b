"""The corpus: for each kernel its inputs, which arguments it writes, and the right values computed by PyTorch."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

FOLDER = Path(__file__).parent
Values = Any


class Draw:
    """Inputs of one case, always the same."""

    def __init__(self, name: str):
        self._generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))

    def floats(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Normally distributed."""
        return torch.randn(*shape, generator=self._generator, dtype=torch.float64).to(dtype)

    def ints(self, low: int, high: int, *shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
        """Uniform from low to high, high excluded."""
        return torch.randint(low, high, shape, generator=self._generator, dtype=torch.int64).to(dtype)


@dataclass(frozen=True)
class Case:
    """`arguments(draw)` gives the launcher's arguments; `right(*arguments)` the values of those named in `writes`."""

    name: str
    file: str
    arguments: Callable[[Draw], list[Any]]
    writes: tuple[int, ...]
    right: Callable[..., Values]
    tolerance: float = 2e-5
    """Largest error of a float, relative to its size plus the root mean square of all. Integers must be equal."""


def fresh(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Memory that a kernel must overwrite: NaN, or a large integer."""
    if dtype.is_floating_point:
        return torch.full(shape, float("nan"), dtype=dtype)
    return torch.full(shape, 1 if dtype is torch.bool else 77, dtype=dtype)


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """What an accumulation starts from."""
    return torch.zeros(shape, dtype=dtype)


def error_of(got: torch.Tensor, right: torch.Tensor, tolerance: float) -> float:
    """How far `got` is from `right`, in multiples of the tolerance; for integers the number of differences."""
    if got.shape != right.shape:
        right = right.reshape(got.shape)
    if not got.dtype.is_floating_point:
        return float((got.to(torch.int64) != right.to(torch.int64)).sum())
    wanted, found = right.to(torch.float64), got.to(torch.float64)
    if not bool(torch.isfinite(found).all()):
        return float("inf")
    scale = wanted.abs() + wanted.pow(2).mean().sqrt() + 1e-30
    return float(((found - wanted).abs() / scale).max() / tolerance) if wanted.numel() else 0.0


def right_values(case: Case, arguments: list[Any]) -> list[torch.Tensor]:
    """The values that the written arguments must have, computed from the unchanged arguments."""
    wide = [a.double() if isinstance(a, torch.Tensor) and a.dtype.is_floating_point else a for a in arguments]
    result = case.right(*wide)
    return list(result) if isinstance(result, tuple) else [result]


def sources(file: str) -> dict[str, str]:
    """A submission in the C-ABI form that holds this one file."""
    return {"model_new.py": "", f"kernels/{file}.cu": (FOLDER / f"{file}.cu").read_text()}


def all_cases() -> tuple[Case, ...]:
    """Every case, by file."""
    from tests.sim.corpus import cases_data, cases_groups, cases_math

    return (*cases_data.cases(), *cases_groups.cases(), *cases_math.cases())


def names_of_files() -> tuple[str, ...]:
    """The corpus's files without suffix, in order."""
    return tuple(dict.fromkeys(case.file for case in all_cases()))
