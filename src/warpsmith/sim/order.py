"""The order in which a block's threads run between barriers: right results do not depend on it."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

Result = TypeVar("Result")

ORDER_VARIABLE = "WARPSMITH_SIM_ORDER"
BLOCKS_VARIABLE = "WARPSMITH_SIM_BLOCKS_REVERSED"

FORWARD, REVERSE = 0, 1
ORDERS: tuple[int, ...] = (FORWARD, REVERSE, 7, 12)
"""Orders that together run every pair of threads both ways round: forward, reverse, and seeds of a shuffle."""

DEPENDS_ON_ORDER = "depends on thread order: a barrier is missing, or threads write to one place"


def name(order: int) -> str:
    """The order in words."""
    return {FORWARD: "forward", REVERSE: "reverse"}.get(order, f"shuffle {order}")


def use(order: int, *, blocks_reversed: bool = False) -> None:
    """Sets, for all later launches in this process, the order of threads and of blocks.

    `order`: 0 forward, 1 reverse, above 1 the seed of a shuffle. Odd orders also fill fresh memory with another
    pattern: NaN in both, but as integers -1 or large. `blocks_reversed`: blocks run from the last to the first, in
    which a kernel that waits for earlier blocks never ends. Raises ValueError for a negative order.
    """
    if order < 0:
        raise ValueError(f"an order is 0 or more, not {order}")
    os.environ[ORDER_VARIABLE] = str(order)
    os.environ[BLOCKS_VARIABLE] = "1" if blocks_reversed else "0"


@contextmanager
def using(order: int, *, blocks_reversed: bool = False) -> Iterator[None]:
    """`use` for the body of a with statement."""
    before = {name: os.environ.get(name) for name in (ORDER_VARIABLE, BLOCKS_VARIABLE)}
    use(order, blocks_reversed=blocks_reversed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def dependence(
    run: Callable[[], Result], same: Callable[[Result, Result], bool], orders: Sequence[int] = ORDERS
) -> str | None:
    """Runs `run` once an order, on inputs that it must keep alike, and says in words where results differ.

    `same(first, other)`: whether two results agree (within rounding: atomics on floats may add in any order).
    None where all agree.
    """
    first: Result | None = None
    for number, order in enumerate(orders):
        with using(order):
            result = run()
        if number == 0:
            first = result
        elif not same(first, result):  # type: ignore[arg-type]
            return f"{DEPENDS_ON_ORDER} ({name(orders[0])} and {name(order)} differ)"
    return None
