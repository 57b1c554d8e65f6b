"""Cases of groups of threads, votes and bits."""

import torch
from tests.sim.corpus.cases import Case, fresh, zeros

I32, I64, U32 = torch.int32, torch.int64, torch.uint32


def matched(x, same, votes, n):
    groups = [x[i : i + 32].tolist() for i in range(0, n, 32)]
    lanes, ballots = [], []
    for group in groups:
        lanes += [sum(1 << j for j, other in enumerate(group) if other == value) for value in group]
        odd = sum(1 << j for j, value in enumerate(group) if value & 1)
        alike = 0xFFFFFFFF if len({value // 64 for value in group}) == 1 else 0
        vote = alike ^ odd ^ ((3 in group) << 7) ^ all(value >= 0 for value in group)
        ballots += [vote] * 32
    return torch.tensor(lanes), torch.tensor(ballots)


def reduced(x, y, n):
    out = []
    for i in range(0, n, 32):
        values = x[i : i + 32].tolist()
        both, some, odd = 0xFFFFFFFF, 0, 0
        for value in values:
            both, some, odd = both & value, some | value, odd ^ value
        out += [sum(values) & 0xFFFFFFFF, min(values), max(values), both, some, odd]
    return torch.tensor(out)


def shuffled(x, y, n):
    out = []
    for start in range(0, n, 32):
        v = x[start : start + 32].tolist()
        for lane in range(32):
            up = v[lane - 2] if lane % 16 >= 2 else v[lane]
            half = (v[lane + 4] if lane + 4 < 16 else v[lane]) if lane < 16 else 0
            total = v[lane // 8 * 8 + 3] + 3 * v[(lane + 5) % 32] + 5 * up + 7 * v[lane ^ 9] + 11 * half
            out.append(total)
    return torch.tensor(out)


def turned(x, y, n):
    blocks = [part.flip(0) for part in x.view(-1, 64, 4)]
    return torch.cat(blocks).flip(1)


def steps(y, n):
    def of(value: int) -> int:
        count = 0
        while value != 1:
            value, count = (3 * value + 1 if value % 2 else value // 2), count + 1
        return count

    return torch.tensor([of(i + 1) for i in range(n)])


def sums(x, y32, y16, y8, n):
    return x.view(-1, 32).sum(1), x.view(-1, 16).sum(1), x.view(-1, 8).sum(1)


def _bits(x: torch.Tensor, y: torch.Tensor, n: int) -> torch.Tensor:
    """The twelve words of `bit_tricks`, from their definitions."""
    full = 0xFFFFFFFF

    def parts(value: int, bits: int, signed: bool = False) -> list[int]:
        found = [value >> shift & ((1 << bits) - 1) for shift in range(0, 32, bits)]
        return [v - (1 << bits) if signed and v >> (bits - 1) else v for v in found]

    def joined(values: list[int], bits: int) -> int:
        return sum((v & ((1 << bits) - 1)) << bits * i for i, v in enumerate(values))

    def signed(value: int) -> int:
        return value - (1 << 32) if value >> 31 else value

    rows = []
    words = x.tolist()
    for i, a in enumerate(words):
        b = words[n - 1 - i]
        s, wide = a % 32, a << 32 | b
        a4, b4 = parts(a, 8), parts(b, 8)
        lowest = (a & -a).bit_length() + ((wide & -wide).bit_length()) * 64
        add4 = joined([p + q for p, q in zip(a4, b4, strict=True)], 8)
        sub2 = joined([p - q for p, q in zip(parts(a, 16), parts(b, 16), strict=True)], 16)
        apart4 = joined([abs(p - q) for p, q in zip(a4, b4, strict=True)], 8)
        top2 = joined([max(p, q) for p, q in zip(parts(a, 16, True), parts(b, 16, True), strict=True)], 16)
        apart = sum(abs(p - q) for p, q in zip(a4, b4, strict=True))
        more4 = joined([-1 if p > q else 0 for p, q in zip(a4, b4, strict=True)], 8)
        rows.append(
            [
                a.bit_count() + wide.bit_count() * 64,
                32 - a.bit_length() + (64 - wide.bit_length()) * 64,
                lowest,
                int(f"{a:032b}"[::-1], 2),
                ((b << 32 | a) << s) >> 32 & full,
                (b << 32 | a) >> s & full,
                add4 ^ sub2,
                apart4 ^ top2,
                (apart + more4) & full,
                (sum(p * q for p, q in zip(a4, b4, strict=True)) + 7) & full,
                (a * b >> 32) ^ (signed(a) * signed(b) >> 32 & full),
                (joined([a4[0], a4[2], b4[0], b4[2]], 8) + abs(a - b) + 1) & full,
            ]
        )
    return torch.tensor(rows)


_GROUPS = (
    Case(
        "tile_sums",
        "groups",
        lambda d: [d.ints(-99, 99, 256), *(fresh(256 // k, dtype=I32) for k in (32, 16, 8)), 256],
        (1, 2, 3),
        sums,
    ),
    Case(
        "tile_reduce",
        "groups",
        lambda d: [d.floats(288), fresh(9), fresh(9), 288],
        (1, 2),
        lambda x, total, top, n: (x.view(-1, 32).sum(1), x.view(-1, 32).amax(1)),
    ),
    Case(
        "tile_scans",
        "groups",
        lambda d: [d.ints(-99, 99, 128), fresh(128, dtype=I32), fresh(128, dtype=I32), 128],
        (1, 2),
        lambda x, a, b, n: (x.view(-1, 16).cumsum(1), x.view(-1, 16).cumsum(1) - x.view(-1, 16)),
    ),
    Case(
        "count_positive",
        "groups",
        lambda d: [d.ints(-5, 6, 700), zeros(1, dtype=I32), 700],
        (1,),
        lambda x, count, n: (x > 0).sum(),
    ),
    Case(
        "count_by_label",
        "groups",
        lambda d: [d.ints(0, 6, 320), zeros(6, dtype=I32), 320],
        (1,),
        lambda labels, counts, n: torch.bincount(labels, minlength=6),
    ),
    Case(
        "matches",
        "groups",
        lambda d: [
            torch.cat([d.ints(0, 5, 64), d.ints(0, 200, 64)]),
            fresh(128, dtype=U32),
            fresh(128, dtype=U32),
            128,
        ],
        (1, 2),
        matched,
    ),
    Case(
        "warp_reductions",
        "groups",
        lambda d: [d.ints(0, 1 << 32, 128, dtype=U32), fresh(24, dtype=U32), 128],
        (1,),
        reduced,
    ),
    Case(
        "bit_tricks",
        "groups",
        lambda d: [d.ints(1, 1 << 32, 64, dtype=U32), fresh(64, 12, dtype=U32), 64],
        (1,),
        _bits,
    ),
    Case("staged_copy", "groups", lambda d: [d.floats(1024), fresh(1024), 1024], (1,), turned, 1e-9),
    Case(
        "polynomial",
        "groups",
        lambda d: [d.floats(130), fresh(130), 130],
        (1,),
        lambda x, y, n: 1 - 0.5 * x + 0.25 * x**2 + 2 * x**3 - x**4,
    ),
    Case("shuffles", "groups", lambda d: [d.ints(-99, 99, 128), fresh(128, dtype=I32), 128], (1,), shuffled),
    Case("collatz_steps", "groups", lambda d: [fresh(500, dtype=I32), 500], (0,), steps),
    Case(
        "hand_over",
        "groups",
        lambda d: [d.ints(-99, 99, 6), fresh(6, dtype=I32), 6],
        (1,),
        lambda x, y, n: x + 1,
    ),
)


def cases() -> tuple[Case, ...]:
    """Every case of this file."""
    return _GROUPS
