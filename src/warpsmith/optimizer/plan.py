"""How each kernel is launched: threads, vector width, rows a block. The defaults; `tune` tries the neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from warpsmith.optimizer.cuda_index import collapse, index_type, touches, vectors
from warpsmith.optimizer.cuda_text import kernel_buffers
from warpsmith.optimizer.fuse import Kernel
from warpsmith.optimizer.ir import SCANS, Arena, Const, Iota, Load, Op, Program
from warpsmith.optimizer.split import MULTIPROCESSORS, along_rows, keeps_row, levels

REGISTER_BUDGET = 64
"""Row elements that one thread may keep."""
MAX_WINDOW = 512
"""Elements of a window that one thread takes alone."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel with its launch parameters.

    `mode`: "pointwise" (`items` vectors a thread), "row" (`group` threads walk along a row, `block // group` rows a
    block), "column" (`group` threads share a column, lanes run across `block // group` neighbouring rows), "columns"
    (the same with `vec` columns a thread), "scan" (a block a row, `items` vectors a thread and tile), "scan_column"
    (a thread a column), "relay" (see relay.py) or "stages" (a relay's stages as kernels of their own).
    """

    name: str
    kernel: Kernel
    mode: str
    block: int
    items: int = 1
    group: int = 1
    vec: int = 1
    cached: bool = False
    index: str = "unsigned"
    stages: tuple[Launch, ...] = ()
    """Of a relay: what reduces chunks, combines them and writes; `items` is how many chunks the first runs ahead."""

    @property
    def grid(self) -> int:
        """Number of blocks."""
        if self.mode == "pointwise":
            return -(-self.kernel.numel // (self.vec * self.block * self.items))
        if self.mode == "relay":
            chunks, rows = self.stages[0].kernel.rows, self.stages[1].kernel.rows
            return 2 * (chunks + chunks // rows + self.items)
        columns = self.vec if self.mode == "columns" else 1
        return -(-self.kernel.rows // columns // (self.block // self.group))

    @property
    def per_thread(self) -> int:
        """Vectors of a row that one thread handles."""
        width = 1 if self.mode == "columns" else self.vec
        return -(-self.kernel.length // (self.group * width))


def default_launch(program: Program, kernel: Kernel, name: str, conservative: bool = False) -> Launch:
    """Launch parameters by size; `conservative`: no vector loads."""
    arena, buffers = program.arena, program.buffers
    kernel = collapse(arena, kernel)
    index = index_type(arena, kernel, buffers)
    if kernel.items[0].kind in SCANS:
        vec = 1 if conservative or not along_rows(kernel) else vector_width(arena, kernel)
        if not along_rows(kernel) or sum(kernel.mask) > 1:
            return Launch(name, kernel, "scan_column", 256, index=index)
        block = _power_of_two(kernel.length / (4 * vec), 32, 256)
        return Launch(name, kernel, "scan", block, items=4, group=block, vec=vec, index=index)
    if not any(i.is_reduction for i in kernel.items):
        vec = 1 if conservative else vector_width(arena, kernel)
        items = 4 if kernel.numel >= vec * 256 * 4 * MULTIPROCESSORS * 4 else 1
        return Launch(name, kernel, "pointwise", 256, items=items, vec=vec, index=index)
    caches = keeps_row(arena, kernel)
    if is_windowed(arena, kernel):
        launch = Launch(name, kernel, "column", 256, index=index)
    elif along_rows(kernel):
        vec = 1 if conservative else vector_width(arena, kernel)
        group = _row_group(kernel, vec, caches)
        block = max(group, 256 if group <= 32 else group)
        launch = Launch(name, kernel, "row", block, group=group, vec=vec, index=index)
    elif not conservative and vector_columns(arena, kernel):
        group, block = _columns_shape(kernel)
        return Launch(name, kernel, "columns", block, group=group, vec=4, index=index)
    else:
        group, block = _column_shape(kernel, caches)
        launch = Launch(name, kernel, "column", block, group=group, vec=1, index=index)
    fits = launch.per_thread * launch.vec * max(1, kept_arrays(arena, kernel)) <= REGISTER_BUDGET
    return Launch(
        name, kernel, launch.mode, launch.block, 1, launch.group, launch.vec, caches and fits, index
    )


def is_windowed(arena: Arena, kernel: Kernel) -> bool:
    """Whether rows are short and woven into each other, as pooling windows are: a thread then takes a whole row."""
    if not along_rows(kernel) or kernel.length > MAX_WINDOW:
        return False
    for item in kernel.items:
        for strides in _read_strides(arena, item.expr):
            pairs = list(zip(strides, kernel.sizes, kernel.mask, strict=True))
            span = max((abs(s) * n for s, n, m in pairs if m), default=0)
            if any(0 < abs(s) < span for s, _, m in pairs if not m):
                return True
    return False


def _read_strides(arena: Arena, expr: int) -> Iterator[tuple[int, ...]]:
    """Strides of everything that an expression reads, also by a computed place where that is a sum of steps."""
    for at in arena.walk(expr):
        node = arena.nodes[at]
        if isinstance(node, Op) and node.name.startswith("pick"):
            node = arena.nodes[node.args[1]]
        if isinstance(node, Load) or (isinstance(node, Iota) and isinstance(arena.nodes[at], Op)):
            yield node.strides


def _power_of_two(value: float, low: int, high: int) -> int:
    out = low
    while out < value and out < high:
        out *= 2
    return out


def _row_group(kernel: Kernel, vec: int, caches: bool) -> int:
    """Threads a row: one warp up to 1024 elements, then enough for 16 elements a thread."""
    length = kernel.length
    if length <= 32 * vec:
        return _power_of_two(length / vec, 1, 32)
    if length <= 1024:
        return 32
    return _power_of_two(length / 16, 64, 1024 if caches else 512)


def _column_shape(kernel: Kernel, caches: bool) -> tuple[int, int]:
    """(threads a column, threads a block): lanes cover at least 32 neighbouring columns."""
    length, rows = kernel.length, kernel.rows
    if caches:
        group = _power_of_two(length / 32, 1, 32)
    else:
        wanted = MULTIPROCESSORS * 2048 / rows
        group = _power_of_two(min(wanted, length / 8), 1, 32)
    return group, max(256, 32 * group)


def vector_columns(arena: Arena, kernel: Kernel) -> bool:
    """Whether one pass over rows can take four neighbouring columns a thread in aligned vectors."""
    if along_rows(kernel) or keeps_row(arena, kernel) or kernel.sizes[-1] % 4:
        return False
    for item in kernel.items:
        for load in arena.loads(item.expr):
            if 2 * touches(kernel.sizes, load.strides) >= kernel.numel and not vectors(load, load.strides, 4):
                return False
    return True


def _columns_shape(kernel: Kernel) -> tuple[int, int]:
    """(threads a column, threads a block): two waves of threads, at least 16 rows each."""
    wanted = 2 * MULTIPROCESSORS * 2048 / (kernel.rows // 4)
    group = _power_of_two(min(wanted, kernel.length / 16), 1, 32)
    return group, max(256, 32 * group)


def vector_width(arena: Arena, kernel: Kernel) -> int:
    """4 where the innermost factor can be walked in aligned vectors of 4 by the large loads, else 1."""
    if not kernel.sizes or kernel.sizes[-1] % 4:
        return 1
    large = 0
    for item in kernel.items:
        for load in arena.loads(item.expr):
            big = 2 * touches(kernel.sizes, load.strides) >= kernel.numel
            if big and not vectors(load, load.strides, 4):
                return 1
            large += big
    return 4


def element_ids(arena: Arena, kernel: Kernel) -> set[int]:
    """Expressions that change along a row."""
    found: set[int] = set()
    for item in kernel.items:
        for at in arena.walk(item.expr):
            node = arena.nodes[at]
            if isinstance(node, Op):
                if any(a in found for a in node.args):
                    found.add(at)
            elif not isinstance(node, Const) and any(
                s for s, m in zip(node.strides, kernel.mask, strict=True) if m
            ):
                found.add(at)
    return found


def passes(arena: Arena, kernel: Kernel) -> list[list[int]]:
    """What each pass over a row evaluates: the reductions of one level, at last what is written for each element."""
    depth = levels(arena, kernel)
    out: list[list[int]] = [[] for _ in range(max(depth.values(), default=0))]
    for item in kernel.items:
        if item.is_reduction:
            out[depth[item.buf] - 1].append(item.expr)
    written = [i.expr for i in kernel.items if i.scope == "element" and not i.is_reduction]
    return [*out, written] if written else out


def kept_ids(arena: Arena, kernel: Kernel) -> list[int]:
    """Element expressions of an earlier pass that a later one needs: what a thread keeps in registers."""
    element = element_ids(arena, kernel)
    known: set[int] = set()
    kept: list[int] = []
    for roots in passes(arena, kernel):
        new: set[int] = set()
        for root in roots:
            for at in arena.walk(root, known.__contains__):
                if at in known:
                    if at in element and at not in kept:
                        kept.append(at)
                else:
                    new.add(at)
        known |= new
    return kept


def kept_arrays(arena: Arena, kernel: Kernel) -> int:
    """Number of arrays of row elements that a thread keeps."""
    return len(kept_ids(arena, kernel))


def traffic_bytes(program: Program, kernel: Kernel) -> int:
    """Bytes of distinct buffers that a kernel reads and writes."""
    outs, ins = kernel_buffers(program, kernel)
    return sum(program.buffers[b].nbytes for b in {*outs, *ins})
