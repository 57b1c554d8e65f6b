"""Statistics of one tensor, and its walk block by block: bounded memory, on the tensor's own device."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

# Elements at a time, about 48 bytes of temporaries each. On a CPU they stay in its cache and on one thread:
# waiting for a second thread costs more than it brings as soon as the cores are shared.
_CHUNK = {"cpu": 1 << 15}
_CHUNK_DEVICE = 1 << 22
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class Summary:
    """Statistics of one tensor: element counts, and moments over its finite elements."""

    count: int
    finite: int
    mean: float
    rms: float
    largest: float
    spread: float | None = None
    """The spread about the mean by a pass of its own, where the others cannot tell it."""

    @property
    def std(self) -> float:
        """Spread about the mean."""
        if self.spread is not None:
            return self.spread
        # Factored, so that no square overflows.
        return math.sqrt(max(self.rms - abs(self.mean), 0.0)) * math.sqrt(self.rms + abs(self.mean))


def identical(expected: torch.Tensor, actual: torch.Tensor) -> bool:
    """True where dtype, shape and every bit are the same. Bounded memory, one device synchronisation."""
    if expected.dtype != actual.dtype or expected.shape != actual.shape:
        return False
    e, a = real(expected), real(actual).to(expected.device)
    bits = _BITS[e.element_size()]
    rows = [
        (e[b].contiguous().view(bits) == a[b].contiguous().view(bits)).all()
        for b in blocks(e.shape, _CHUNK_DEVICE)
    ]
    return bool(torch.stack(rows).all())


def summary(t: torch.Tensor) -> Summary:
    """Statistics in one pass; in three where elements are not finite or their squares overflow."""
    count = t.numel()
    if not count:
        return Summary(0, 0, 0.0, 0.0, 0.0)
    parts = list(blocks(t.shape, chunk(t.device)))
    totals, norms, largest = zip(*_read(_block_moments(double(t[b])) for b in parts), strict=True)
    mean, rms = math.fsum(totals) / count, math.hypot(*norms) / math.sqrt(count)
    if math.isfinite(mean) and math.isfinite(rms):
        # Below 1e-8 of the mean a spread is lost in the moments; only float64 has room for a gate there.
        near = t.dtype == torch.float64 and rms - abs(mean) < 1e-6 * rms
        spread = _spread(t, parts, mean) if near else None
        return Summary(count, count, mean, rms, max(largest), spread)
    finite, peaks = zip(*_read(_block_finite(double(t[b])) for b in parts), strict=True)
    n, peak = int(sum(finite)), max(peaks)
    if not n or not peak:
        return Summary(count, n, 0.0, 0.0, 0.0)
    totals, norms, _ = zip(
        *_read(_block_moments(_zeroed(double(t[b])).div_(peak)) for b in parts), strict=True
    )
    return Summary(count, n, peak * (math.fsum(totals) / n), peak * (math.hypot(*norms) / math.sqrt(n)), peak)


def _spread(t: torch.Tensor, parts: list[tuple[int | slice, ...]], mean: float) -> float:
    norms = torch.stack([torch.linalg.vector_norm(double(t[b]) - mean) for b in parts]).tolist()
    return math.hypot(*norms) / math.sqrt(t.numel())


def _read(rows: Iterator[torch.Tensor]) -> list[list[float]]:
    return torch.stack(list(rows)).tolist()


def _block_moments(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([x.sum(), torch.linalg.vector_norm(x), torch.linalg.vector_norm(x, math.inf)])


def _block_finite(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([torch.isfinite(x).sum().double(), _zeroed(x).abs_().max()])


def _zeroed(x: torch.Tensor) -> torch.Tensor:
    """A copy with zeros for what is not finite."""
    return torch.where(torch.isfinite(x), x, 0.0)


def real(t: torch.Tensor) -> torch.Tensor:
    """A complex tensor as pairs of real numbers."""
    return torch.view_as_real(t.resolve_conj()) if t.dtype.is_complex else t


def double(t: torch.Tensor) -> torch.Tensor:
    """Flat float64; may share memory with `t`, so it must not be written to."""
    return t.to(torch.float64, memory_format=torch.contiguous_format).reshape(-1)


def chunk(device: torch.device) -> int:
    """Elements of a block on `device`."""
    return _CHUNK.get(device.type, _CHUNK_DEVICE)


def blocks(shape: torch.Size, limit: int) -> Iterator[tuple[int | slice, ...]]:
    """Indices that cut a tensor into blocks of at most `limit` elements, without copying it flat."""
    if math.prod(shape) <= limit:
        yield ()
        return
    dim = next(d for d in range(len(shape)) if math.prod(shape[d + 1 :]) <= limit)
    step = max(1, limit // math.prod(shape[dim + 1 :]))
    for lead in itertools.product(*(range(n) for n in shape[:dim])):
        for start in range(0, shape[dim], step):
            yield (*lead, slice(start, start + step))


def index(shape: torch.Size, flat: int, block: tuple[int | slice, ...]) -> tuple[int, ...]:
    """The index in the whole tensor of element `flat` of a block of `shape`."""
    within: list[int] = []
    for size in reversed(shape):
        flat, i = divmod(flat, size)
        within.insert(0, i)
    if not block:
        return tuple(within)
    *lead, last = block
    return (*lead, last.start + within[0], *within[1:])
