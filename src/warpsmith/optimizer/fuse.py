"""Which steps share a kernel: pointwise work joins the reductions it feeds or follows, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from warpsmith.optimizer.ir import SCANS, Arena, Call, Define, Load, Program, contiguous_strides, tensor_refs
from warpsmith.optimizer.views import common_refinement, refine_expr, split_counts


@dataclass(frozen=True, slots=True)
class Item:
    """One result of a kernel. `scope`: computed for each element, or once a row (also every reduction's result)."""

    buf: str
    kind: str
    scope: str
    expr: int
    label: tuple[str, str] | None
    store: bool = True

    @property
    def is_reduction(self) -> bool:
        """Whether the expression is reduced over the masked factors."""
        return self.kind != "pointwise" and self.kind not in SCANS


@dataclass(frozen=True, slots=True)
class Kernel:
    """One fused loop nest over `sizes`; `mask` marks the factors that its reductions run over."""

    sizes: tuple[int, ...]
    mask: tuple[bool, ...]
    items: tuple[Item, ...]

    @property
    def rows(self) -> int:
        """Number of independent rows."""
        return prod(s for s, m in zip(self.sizes, self.mask, strict=True) if not m)

    @property
    def length(self) -> int:
        """Elements in a row."""
        return prod(s for s, m in zip(self.sizes, self.mask, strict=True) if m)

    @property
    def numel(self) -> int:
        """Elements in all."""
        return prod(self.sizes)


@dataclass
class _Group:
    steps: list[Define] = field(default_factory=list)
    call: Call | None = None
    kernel: Kernel | None = None
    needs: set[int] = field(default_factory=set)


def row_strides(sizes: Sequence[int], mask: Sequence[bool]) -> tuple[int, ...]:
    """Strides of a per-row buffer in a kernel's index space."""
    own = iter(contiguous_strides(tuple(s for s, m in zip(sizes, mask, strict=True) if not m)))
    return tuple(0 if m else next(own) for m in mask)


def fuse(program: Program) -> list[Kernel | Call]:
    """Group the program's steps into kernels, in an order in which they can run."""
    groups: list[_Group] = []
    maker: dict[str, int] = {}
    for step in program.steps:
        if isinstance(step, Call):
            reads = {r.buf for r in tensor_refs((step.args, [v for _, v in step.kwargs]))}
            groups.append(_Group(call=step, needs={maker[b] for b in reads if b in maker}))
            maker.update({n: len(groups) - 1 for n in step.outs if n})
            continue
        reads = {load.buf for load in program.arena.loads(step.expr)}
        needs = {maker[b] for b in reads if b in maker}
        home = _home(program.arena, groups, step, reads, needs)
        if home is None:
            own = _scan(step) if step.is_scan else merge(program.arena, [step])
            groups.append(_Group([step], None, own, needs))
            home = len(groups) - 1
        maker[step.buf] = home
    return [g.call or _finished(program, g, groups) for g in _ordered(groups)]


def _home(arena: Arena, groups: list[_Group], step: Define, reads: set[str], needs: set[int]) -> int | None:
    """The group that `step` may join, joined; None where it starts its own."""
    if step.is_scan:
        return None
    candidates = sorted(needs, reverse=True)
    whole = _read_whole(arena, step)
    for at, group in enumerate(groups):
        if at not in candidates and any(whole & _read_whole(arena, s) for s in group.steps):
            candidates.append(at)
    for at in candidates:
        group = groups[at]
        alone = group.call or any(s.is_scan for s in group.steps)
        if alone or any(_depends(groups, other, at) for other in needs - {at}):
            continue
        kernel = merge(arena, [*group.steps, step])
        if kernel is not None:
            group.steps.append(step)
            group.kernel = kernel
            group.needs |= needs - {at}
            return at
    return None


def _read_whole(arena: Arena, step: Define) -> set[str]:
    """Buffers that a step reads an element of for each of its own."""
    return {n.buf for n in arena.loads(step.expr) if all(n.strides)}


def _depends(groups: list[_Group], at: int, on: int) -> bool:
    seen, stack = set(), [at]
    while stack:
        here = stack.pop()
        if here == on:
            return True
        if here not in seen:
            seen.add(here)
            stack.extend(groups[here].needs)
    return False


def _ordered(groups: list[_Group]) -> list[_Group]:
    order: list[int] = []
    placed: set[int] = set()

    def place(at: int) -> None:
        if at not in placed:
            placed.add(at)
            for need in sorted(groups[at].needs):
                place(need)
            order.append(at)

    for at in range(len(groups)):
        place(at)
    return [groups[at] for at in order]


def merge(arena: Arena, steps: Sequence[Define]) -> Kernel | None:
    """One kernel for all of `steps` (in order), or None where their index spaces or dependencies do not allow it."""
    space = _common_space(steps)
    if space is None:
        return None
    sizes, mask = space
    kept = tuple(s for s, m in zip(sizes, mask, strict=True) if not m)
    by_row, whole = row_strides(sizes, mask), contiguous_strides(sizes)
    inside: dict[str, tuple[int, ...]] = {}
    inline: dict[str, int] = {}
    items = []
    for step in steps:
        scope = "element"
        if prod(step.sizes) == prod(sizes):
            expr = refine_expr(arena, step.expr, step.sizes, sizes)
        else:
            scope = "row"
            expr = _spread(arena, refine_expr(arena, step.expr, step.sizes, kept), mask)
        for load in arena.loads(expr):
            if load.buf in inside and (load.offset or load.strides != inside[load.buf]):
                return None
        expr = _inlined(arena, expr, inline)
        if step.is_reduction:
            scope = "row"
        else:
            inline[step.buf] = expr
        inside[step.buf] = by_row if scope == "row" else whole
        items.append(Item(step.buf, step.kind, scope, expr, step.label))
    return Kernel(sizes, mask, tuple(items))


def _scan(step: Define) -> Kernel:
    """A scan is a kernel of its own; what it reads is computed in it."""
    return Kernel(step.sizes, step.mask, (Item(step.buf, step.kind, "element", step.expr, step.label),))


def _common_space(steps: Sequence[Define]) -> tuple[tuple[int, ...], tuple[bool, ...]] | None:
    """The coarsest factors and mask that fit every step."""
    total = max(prod(s.sizes) for s in steps)
    reductions = [s for s in steps if s.is_reduction]
    if any(prod(s.sizes) != total for s in reductions):
        return None
    sizes: tuple[int, ...] | None = steps[0].sizes if prod(steps[0].sizes) == total else None
    for step in steps:
        if prod(step.sizes) == total:
            sizes = step.sizes if sizes is None else common_refinement(sizes, step.sizes)
            if sizes is None:
                return None
    assert sizes is not None
    if not reductions:
        return (sizes, (False,) * len(sizes)) if all(prod(s.sizes) == total for s in steps) else None
    masks = {_refined_mask(s, sizes) for s in reductions}
    if len(masks) > 1:
        return None
    return _split_rows(steps, total, sizes, masks.pop())


def _refined_mask(step: Define, sizes: tuple[int, ...]) -> tuple[bool, ...]:
    counts = split_counts(step.sizes, sizes)
    return tuple(m for m, count in zip(step.mask, counts, strict=True) for _ in range(count))


def _split_rows(
    steps: Sequence[Define], total: int, sizes: tuple[int, ...], mask: tuple[bool, ...]
) -> tuple[tuple[int, ...], tuple[bool, ...]] | None:
    """Refine the kept factors so that steps over rows alone fit too."""
    kept = tuple(s for s, m in zip(sizes, mask, strict=True) if not m)
    fine: tuple[int, ...] | None = kept
    for step in steps:
        if prod(step.sizes) != total:
            fine = common_refinement(fine, step.sizes)
            if fine is None:
                return None
    counts = iter(split_counts(kept, fine))
    parts = iter(fine)
    out_sizes: list[int] = []
    out_mask: list[bool] = []
    for size, masked in zip(sizes, mask, strict=True):
        new = [size] if masked else [next(parts) for _ in range(next(counts))]
        out_sizes += new
        out_mask += [masked] * len(new)
    return tuple(out_sizes), tuple(out_mask)


def _spread(arena: Arena, expr: int, mask: tuple[bool, ...]) -> int:
    """An expression over kept factors as one over all factors that does not move along the masked ones."""

    def move(offset: int, strides: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        own = iter(strides)
        return offset, tuple(0 if m else next(own) for m in mask)

    return arena.restride(expr, move)


def _inlined(arena: Arena, expr: int, inline: dict[str, int]) -> int:
    return arena.rewrite(expr, lambda at, n: inline.get(n.buf) if isinstance(n, Load) else None)


def _finished(program: Program, group: _Group, groups: list[_Group]) -> Kernel:
    """The group's kernel, storing only what something outside it reads."""
    assert group.kernel is not None
    outside = {r.buf for r in tensor_refs(program.result)}
    for other in groups:
        if other.call:
            outside |= {r.buf for r in tensor_refs((other.call.args, [v for _, v in other.call.kwargs]))}
        elif other is not group:
            outside |= {n.buf for s in other.steps for n in program.arena.loads(s.expr)}
    items = tuple(Item(i.buf, i.kind, i.scope, i.expr, i.label, i.buf in outside) for i in group.kernel.items)
    kept = tuple(i for i in items if i.store or i.is_reduction)
    return Kernel(group.kernel.sizes, group.kernel.mask, kept)
