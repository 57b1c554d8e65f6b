"""Cases of atomics, scans and moves."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from tests.sim.corpus.cases import Case, fresh, zeros

I32, I64, U32 = torch.int32, torch.int64, torch.uint32


def add_rows(x, rows, out, n, width):
    return out.index_add(0, rows, x.view(n, width))


def bounds(x, out, n):
    values = x.tolist()
    union, common, odd = 0, -1, 0
    for value in values:
        union, common, odd = union | value, common & value, odd ^ value
    return torch.tensor([min(values), max(values), union, common, odd])


def segments(x, starts, y, count):
    ends = starts.tolist()
    return torch.stack([x[a:b].sum() for a, b in pairwise(ends)])


def kept(x, y, count, n):
    positive = x[x > 0]
    rest = torch.full((n - len(positive),), 5.0, dtype=x.dtype)
    return torch.cat([positive, rest]), torch.tensor(len(positive))


def ties(d):
    return [d.ints(0, 12, 40, 90).float(), fresh(40, dtype=I64), 40, 90]


def first_top(x, index, rows, width):
    return (x == x.amax(1, keepdim=True)).to(I64).argmax(1)


def columns(x, y, channels, height, width, kernel):
    return F.unfold(x[None], kernel)[0]


def swapped(x, y, n):
    words = x.to(I64)
    return (words & 0xFF) << 24 | (words >> 8 & 0xFF) << 16 | (words >> 16 & 0xFF) << 8 | words >> 24


def clipped(x, mask, some, limit, n):
    above = x > limit
    return above, torch.stack([part.any() for part in above.split(64)])


def transposed(x, y, rows, columns):
    return x.T.contiguous()


_ATOMICS = (
    Case(
        "histogram",
        "atomics",
        lambda d: [d.ints(0, 37, 3000), zeros(37, dtype=I32), 3000, 37],
        (1,),
        lambda x, bins, n, count: torch.bincount(x, minlength=count),
    ),
    Case(
        "sum_float",
        "atomics",
        lambda d: [d.floats(1000), zeros(1), 1000],
        (1,),
        lambda x, total, n: x.sum(),
        1e-4,
    ),
    Case(
        "sum_double",
        "atomics",
        lambda d: [d.floats(1000), zeros(1, dtype=torch.float64), 1000],
        (1,),
        lambda x, total, n: x.sum(),
        1e-12,
    ),
    Case(
        "column_max",
        "atomics",
        lambda d: [d.floats(20, 70).abs(), zeros(70), 20, 70],
        (1,),
        lambda x, top, rows, columns: x.amax(0),
        1e-9,
    ),
    Case(
        "half_counts",
        "atomics",
        lambda d: [d.ints(0, 9, 800), zeros(9, dtype=torch.float16), 800],
        (1,),
        lambda keys, counts, n: torch.bincount(keys, minlength=9) * 0.5,
        1e-9,
    ),
    Case(
        "integer_bounds",
        "atomics",
        lambda d: [d.ints(-500, 500, 700), torch.tensor([9999, -9999, 0, -1, 0], dtype=I32), 700],
        (1,),
        bounds,
    ),
    Case(
        "wide_sum",
        "atomics",
        lambda d: [d.ints(0, 1 << 30, 500), zeros(1, dtype=torch.uint64), 500],
        (1,),
        lambda x, total, n: x.to(I64).sum() << 24,
    ),
    Case(
        "scatter_add",
        "atomics",
        lambda d: [d.floats(60, 24), d.ints(0, 13, 60, dtype=I64), zeros(13, 24), 60, 24],
        (2,),
        add_rows,
    ),
    Case(
        "sum_last_block",
        "atomics",
        lambda d: [d.floats(5000), fresh(8), zeros(1, dtype=U32), fresh(1), 5000],
        (3,),
        lambda x, parts, ticket, total, n: x.sum(),
        1e-4,
    ),
    Case(
        "locked_count",
        "atomics",
        lambda d: [zeros(1, dtype=I32), zeros(1, dtype=I32)],
        (0, 1),
        lambda lock, count: (torch.tensor([0]), torch.tensor([16])),
    ),
)

_SCANS = (
    Case(
        "scan_warp",
        "scans",
        lambda d: [d.floats(256), fresh(256), 256],
        (1,),
        lambda x, y, n: x.view(-1, 32).cumsum(1),
    ),
    Case(
        "scan_block",
        "scans",
        lambda d: [d.floats(768), fresh(768), 768],
        (1,),
        lambda x, y, n: x.view(-1, 256).cumsum(1) - x.view(-1, 256),
        1e-4,
    ),
    Case(
        "scan_grid",
        "scans",
        lambda d: [d.ints(-50, 50, 1700), fresh(1700, dtype=I32), fresh(4, dtype=I32), 1700],
        (1,),
        lambda x, y, totals, n: x.cumsum(0) - x,
    ),
    Case(
        "sum_two_stages",
        "scans",
        lambda d: [d.floats(6000), fresh(7), fresh(1), 6000],
        (2,),
        lambda x, sums, total, n: x.sum(),
        1e-4,
    ),
    Case(
        "row_max",
        "scans",
        lambda d: [d.floats(12, 203), fresh(12), 12, 203],
        (1,),
        lambda x, y, rows, width: x.amax(1),
        1e-9,
    ),
    Case(
        "row_sum_double",
        "scans",
        lambda d: [d.floats(9, 130, dtype=torch.float64), fresh(9, dtype=torch.float64), 9, 130],
        (1,),
        lambda x, y, rows, width: x.sum(1),
        1e-12,
    ),
    Case("argmax", "scans", ties, (1,), first_top),
    Case(
        "segment_sum",
        "scans",
        lambda d: [d.floats(300), torch.tensor([0, 7, 7, 60, 61, 200, 300], dtype=I32), fresh(6), 6],
        (2,),
        segments,
        1e-4,
    ),
    Case(
        "compact",
        "scans",
        lambda d: [d.floats(900), torch.full((900,), 5.0), fresh(1, dtype=I32), 900],
        (1, 2),
        kept,
        1e-9,
    ),
    Case(
        "moments",
        "scans",
        lambda d: [d.floats(10, 75) + 3, fresh(10), fresh(10), 10, 75],
        (1, 2),
        lambda x, mean, variance, rows, width: (x.mean(1), x.var(1, unbiased=False)),
    ),
    Case(
        "scan_chained",
        "scans",
        lambda d: [
            d.ints(0, 9, 1000),
            fresh(1000, dtype=I32),
            fresh(8, dtype=I32),
            zeros(8, dtype=I32),
            zeros(1, dtype=I32),
            1000,
        ],
        (1,),
        lambda x, y, sums, flags, ticket, n: x.cumsum(0),
    ),
)

_MOVES = (
    Case(
        "transpose_naive",
        "moves",
        lambda d: [d.floats(37, 53), fresh(53, 37), 37, 53],
        (1,),
        transposed,
        1e-9,
    ),
    Case(
        "transpose_tiled",
        "moves",
        lambda d: [d.floats(70, 45), fresh(45, 70), 70, 45],
        (1,),
        transposed,
        1e-9,
    ),
    Case(
        "transpose_bytes",
        "moves",
        lambda d: [d.ints(0, 256, 33, 50, dtype=torch.uint8), fresh(50, 33, dtype=torch.uint8), 33, 50],
        (1,),
        transposed,
    ),
    Case(
        "scale_float4",
        "moves",
        lambda d: [d.floats(1028), fresh(1028), 1.5, 1028],
        (1,),
        lambda x, y, factor, n: x * factor,
        2e-7,
    ),
    Case(
        "embed",
        "moves",
        lambda d: [d.floats(30, 80), d.ints(0, 30, 25, dtype=I64), fresh(25, 80), 25, 80],
        (2,),
        lambda table, ids, y, count, width: table[ids],
        1e-9,
    ),
    Case(
        "pad3d",
        "moves",
        lambda d: [d.floats(5, 6, 7), fresh(9, 10, 11), 5, 6, 7, 2],
        (1,),
        lambda x, y, depth, height, width, border: F.pad(x, [border] * 6),
        1e-9,
    ),
    Case(
        "im2col", "moves", lambda d: [d.floats(3, 11, 13), fresh(27, 99), 3, 11, 13, 3], (1,), columns, 1e-9
    ),
    Case(
        "swap_bytes",
        "moves",
        lambda d: [d.ints(0, 1 << 32, 100, dtype=U32), fresh(100, dtype=U32), 100],
        (1,),
        swapped,
    ),
    Case(
        "reverse_block",
        "moves",
        lambda d: [d.ints(-99, 99, 288), 288],
        (0,),
        lambda x, n: x.view(-1, 96).flip(1),
    ),
    Case(
        "roll",
        "moves",
        lambda d: [d.ints(-999, 999, 150, dtype=torch.int16), fresh(150, dtype=torch.int16), 150, 41],
        (1,),
        lambda x, y, n, shift: x.roll(shift),
    ),
    Case(
        "clip_mask",
        "moves",
        lambda d: [d.floats(200), fresh(200, dtype=torch.uint8), fresh(4, dtype=torch.bool), 2.2, 200],
        (1, 2),
        clipped,
    ),
    Case("bitonic_sort", "moves", lambda d: [d.floats(500), 500], (0,), lambda x, n: x.sort().values, 1e-9),
)


def cases() -> tuple[Case, ...]:
    """Every case of this file."""
    return (*_ATOMICS, *_SCANS, *_MOVES)
