"""Guards of windows at an input's edges: when all of them hold for a thread, and its expressions without them."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from warpsmith.optimizer.fuse import Kernel
from warpsmith.optimizer.ir import Arena, Const, Iota, Load, Op


def inside(
    arena: Arena, kernel: Kernel, roots: Sequence[int], element: Container[int], text: Callable[[Iota], str]
) -> str:
    """A condition under which every guard of `roots` holds all along a thread's row; empty where there is none.

    `element`: expressions that change along the row; `text`: C++ of a place at the row's begin.
    """
    found: dict[int, str] = {}
    for root in roots:
        for at in arena.walk(root):
            node = arena.nodes[at]
            if not isinstance(node, Op) or node.name != "within" or at not in element:
                continue
            place, size = (arena.nodes[a] for a in node.args)
            if not isinstance(place, Iota) or not isinstance(size, Const):
                return ""
            along = [(s, n) for s, n, m in zip(place.strides, kernel.sizes, kernel.mask, strict=True) if m]
            if any(s < 0 for s, _ in along):
                return ""
            last = Iota(place.offset + sum(s * (n - 1) for s, n in along), place.strides)
            found[at] = (
                f"static_cast<int>({text(place)}) >= 0 && static_cast<int>({text(last)}) < {size.value}"
            )
    return " && ".join(found.values())


def unguarded(arena: Arena, root: int, element: Container[int]) -> int:
    """The expression where its guards along the row hold: plain loads instead of guarded ones."""
    true = arena.const(True)
    made: dict[int, int] = {}
    for at in list(arena.walk(root)):
        node = arena.nodes[at]
        if not isinstance(node, Op):
            made[at] = at
            continue
        args = [made[a] for a in node.args]
        if node.name == "within" and at in element:
            made[at] = true
        elif node.name == "and" and true in args:
            made[at] = args[1] if args[0] == true else args[0]
        elif node.name == "where" and args[0] == true:
            made[at] = args[1]
        else:
            made[at] = _plain_pick(arena, args, true) if node.name.startswith("pick") else None
            if made[at] is None:
                made[at] = arena.op(node.name, *args, kind=node.kind)
    return made[root]


def _plain_pick(arena: Arena, args: Sequence[int], true: int) -> int | None:
    """A load, where a pick's place is a sum of steps and its guard holds."""
    address, place = arena.nodes[args[0]], arena.nodes[args[1]]
    if args[2] != true or not isinstance(place, Iota) or not isinstance(address, Load):
        return None
    return arena.add(Load(address.buf, place.offset, place.strides, address.kind))
