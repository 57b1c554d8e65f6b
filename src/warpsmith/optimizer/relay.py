"""Long rows in one kernel: what reduces a row runs a little ahead of what writes it, so the second read hits the L2.

The two-stage form reads its input twice from memory, since the first kernel has gone over all of it before the last
one begins. Here blocks take turns: every other one reduces a chunk, the others write chunks of rows that were
finished shortly before. Turns are drawn when a block starts, so a block only waits for blocks that have started.
"""

from __future__ import annotations

from dataclasses import replace

from warpsmith.optimizer.cuda_index import collapse, touches
from warpsmith.optimizer.fuse import Item, Kernel
from warpsmith.optimizer.ir import ITEM_BYTES, Buffer, Program
from warpsmith.optimizer.plan import Launch, vector_width
from warpsmith.optimizer.split import MULTIPROCESSORS, along_rows

MIN_BYTES = 64 << 20
"""What is read whole must exceed the L2 cache, else it is still there for the second kernel."""
CACHE_BYTES = 28 << 20
"""What may be read between the two reads of an element, of an L2 cache of 50 MB (H100, H200)."""


def relayed(program: Program, kernels: list[Kernel], launches: list[Launch]) -> list[Launch]:
    """The launches of one split kernel (and its kernels) as a single relay where that applies, else as they are.

    A relay has three stages (reduce chunks, combine a row's chunks, write elements); rows are cut at their end only.
    """
    if len(launches) != 3:
        return launches
    partial, final, write = launches
    stages = _stages(program, kernels, partial, final, write)
    if stages is None:
        return launches
    arena = program.arena
    chunks, rows = stages[0].grid, stages[1].kernel.rows
    width = _read_bytes(program, stages[0].kernel)
    ahead = MULTIPROCESSORS * 2048 // stages[0].block // 2
    row_bytes = width * stages[0].kernel.length * (chunks // rows)
    fits = row_bytes + ahead * width * stages[0].kernel.length <= CACHE_BYTES
    if not fits or width * stages[0].kernel.numel < MIN_BYTES or rows < 2:
        return launches
    turns = Buffer(f"{partial.name}_turns", (2 * rows + 1,), "int32", "temp")
    program.buffers[turns.name] = turns
    nothing = arena.const(0)
    items = [i for launch in launches for i in launch.kernel.items]
    items = [Item(i.buf, "pointwise", i.scope, i.expr, i.label, i.store) for i in items]
    items.append(Item(turns.name, "pointwise", "row", nothing, None))
    whole = Kernel(partial.kernel.sizes, (False,) * len(partial.kernel.sizes), tuple(items))
    index = "long long" if any(s.index == "long long" for s in stages) else "unsigned"
    return [
        Launch(
            partial.name,
            whole,
            "relay",
            partial.block,
            items=ahead,
            vec=partial.vec,
            index=index,
            stages=stages,
        )
    ]


def _read_bytes(program: Program, kernel: Kernel) -> int:
    """Bytes read from memory for each element."""
    loads = {n for i in kernel.items for n in program.arena.loads(i.expr)}
    big = [n for n in loads if 2 * touches(kernel.sizes, n.strides) >= kernel.numel]
    return sum(ITEM_BYTES[program.buffers[n.buf].dtype] for n in big)


def _stages(
    program: Program, kernels: list[Kernel], partial: Launch, final: Launch, write: Launch
) -> tuple[Launch, Launch, Launch] | None:
    """The three launches with a block for each chunk, row and chunk; None where they are no such stages."""
    arena = program.arena
    block = partial.block
    ended = all(along_rows(x.kernel) for x in (partial, final)) and not _interleaved(final.kernel)
    if not ended or partial.mode != "row" or final.mode != "row" or write.mode != "pointwise":
        return None
    if partial.kernel.rows % final.kernel.rows or any(i.is_reduction for i in write.kernel.items):
        return None
    if kernels[2].sizes != kernels[0].sizes or _interleaved(partial.kernel):
        return None
    chunked = collapse(arena, replace(kernels[2], mask=kernels[0].mask))
    vec = vector_width(arena, chunked)
    return (
        replace(partial, group=block),
        replace(final, block=block, group=block, vec=1, cached=False),
        replace(write, kernel=chunked, mode="row", block=block, group=block, vec=vec, items=1, cached=False),
    )


def _interleaved(kernel: Kernel) -> bool:
    """Whether a reduced factor comes before a kept one."""
    return any(a and not b for a, b in zip(kernel.mask, kernel.mask[1:], strict=False))
