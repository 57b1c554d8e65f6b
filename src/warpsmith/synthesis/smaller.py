"""A task at sizes that the CPU checks in milliseconds; the batch shrinks first, so that the rest stays as it is.

As `sim.shrink`, but in this process, and jumping to the scale that is needed instead of walking there.
"""

import math
from collections.abc import Iterator
from itertools import islice

from warpsmith.sim.shrink import PARAMETER_FACTOR, TaskSize, candidates, measure
from warpsmith.sim.sizes import SizeLiteral, replace_literals, size_literals
from warpsmith.types import Task

MAX_ELEMENTS = 1 << 17
MAX_FLOPS = 1 << 27
_LEAST = 3
"""A batch of one or two is seldom what a task means by a batch."""
_MOST_MEASURED = 24


def smaller(
    code: str, *, max_elements: int = MAX_ELEMENTS, max_flops: int = MAX_FLOPS
) -> tuple[str | None, TaskSize]:
    """The text itself where it fits, else smaller sizes that do, else None; the full size.

    A forward that runs on the meta device at full size must run there at the smaller sizes too; one that does not is
    told by its inputs and parameters alone. Runs the task's code on the meta device, in this process.
    """
    full = measure(code)
    if full.error:
        return None, full

    def suits(size: TaskSize) -> bool:
        return size.forward >= full.forward and size.fits(max_elements, max_flops)

    if suits(full):
        return code, full
    literals = size_literals(code)
    batch = next((literal for literal in literals if not literal.constructs and literal.value > _LEAST), None)
    base, size = code, full
    if batch is not None:
        exact = int(batch.value / max(full.largest / max_elements, full.flops / max_flops))
        for value in dict.fromkeys((max(_LEAST, exact), _LEAST)):
            base = _with(code, batch, value)
            size = measure(base)
            if suits(size):
                return base, full
    for text in islice(_scaled(base, size, max_elements, max_flops), _MOST_MEASURED):
        if suits(measure(text, max_elements)):
            return text, full
    return None, full


def _scaled(code: str, size: TaskSize, max_elements: int, max_flops: int) -> Iterator[str]:
    """Texts with every size scaled down; those that lie far from what is needed are passed over."""
    needed = max(
        size.largest / max_elements,
        size.flops / max_flops,
        size.largest_parameter / max_elements / PARAMETER_FACTOR,
        1.0,
    )
    # two texts a half halving, and a halving of every size divides a tensor by four to eight
    skip = int(math.log2(needed) / 4) * 2
    for task in islice(candidates(Task(name="smaller", code=code)), skip, None):
        yield task.code


def _with(code: str, literal: SizeLiteral, value: int) -> str:
    return replace_literals(code, [literal], {literal.value: value})
