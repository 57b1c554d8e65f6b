"""A task at sizes that the CPU checks in milliseconds; the batch shrinks first, so that the rest stays as it is.

As `sim.shrink`, but in this process, and jumping to the scale that is needed instead of walking there.
"""

import math
from collections.abc import Iterator

from warpsmith.sim.shrink import TaskSize, candidates, measure
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
    """The text itself where it fits, else smaller sizes that do and whose forward runs, else None; the full size.

    Runs the task's code on the meta device, in this process.
    """
    full = measure(code)
    if full.error or (full.fits(max_elements, max_flops) and full.forward):
        return (None if full.error else code), full
    if not full.forward:
        return None, full
    for number, text in enumerate(_texts(code, full, max_elements, max_flops)):
        size = measure(text, max_elements)
        if size.forward and size.fits(max_elements, max_flops):
            return text, full
        if number >= _MOST_MEASURED:
            break
    return None, full


def _texts(code: str, full: TaskSize, max_elements: int, max_flops: int) -> Iterator[str]:
    literals = size_literals(code)
    batches = [literal for literal in literals if not literal.constructs and literal.value > _LEAST]
    needed = max(full.largest / max_elements, full.flops / max_flops)
    for literal in batches[:1]:
        exact = literal.value / needed
        for value in dict.fromkeys((max(_LEAST, int(exact)), _LEAST)):
            yield _with(code, literal, value)
    base = _with(code, batches[0], _LEAST) if batches else code
    size = measure(base) if batches else full
    left = max(
        size.largest / max_elements, size.flops / max_flops, size.largest_parameter / max_elements / 16
    )
    # each halving of every size divides by four to eight; what lies far from the need is not measured
    skip = max(0, int(math.log2(max(left, 1.0)) / 4) * 2)
    for number, task in enumerate(candidates(Task(name="smaller", code=base))):
        if number >= skip:
            yield task.code


def _with(code: str, literal: SizeLiteral, value: int) -> str:
    return replace_literals(code, [literal], {literal.value: value})
