"""The integer sizes that a task's text states, and smaller ones that keep their divisibility. Pure text work."""

import ast
import math
from collections.abc import Iterable
from dataclasses import dataclass

SMALLEST_SCALED = 17
"""Values below it stay: strides, kernel sizes, heads, groups."""
_MAX_VALUE = 1 << 40
_INPUT_FUNCTIONS = ("get_inputs", "get_init_inputs")


@dataclass(frozen=True, slots=True)
class SizeLiteral:
    """An integer, or an expression of integers alone, at characters `start`..`end` of the text."""

    value: int
    start: int
    end: int
    constructs: bool
    """Whether `get_init_inputs` states it or uses the name it is given to."""


def size_literals(code: str) -> list[SizeLiteral]:
    """Integers in module-level assignments and in the bodies of get_inputs and get_init_inputs, in order."""
    tree = ast.parse(code)
    starts = _line_starts(code)
    lines = code.splitlines(keepends=True)
    constructor_names = _constructor_names(tree)
    found: list[SizeLiteral] = []

    def visit(node: ast.AST, constructs: bool) -> None:
        value = _constant(node)
        if value is not None:
            if value >= 0:
                found.append(SizeLiteral(value, *_span(node, starts, lines), constructs))
            return
        for child in ast.iter_child_nodes(node):
            visit(child, constructs)

    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            names = _names_assigned(node)
            if not any("seed" in name.lower() for name in names):
                visit(node.value, bool(names & constructor_names))
        elif isinstance(node, ast.FunctionDef) and node.name in _INPUT_FUNCTIONS:
            for statement in node.body:
                visit(statement, node.name == "get_init_inputs")
    return sorted(found, key=lambda literal: literal.start)


def replace_literals(code: str, literals: Iterable[SizeLiteral], sizes: dict[int, int]) -> str:
    """The text with every literal whose value changes replaced by its new value."""
    pieces: list[str] = []
    position = 0
    for literal in literals:
        new = sizes.get(literal.value, literal.value)
        if new == literal.value:
            continue
        pieces += (code[position : literal.start], str(new))
        position = literal.end
    return "".join(pieces) + code[position:]


def scaled_sizes(
    values: Iterable[int],
    scale: float,
    frozen: frozenset[int] = frozenset(),
    smallest: int = 16,
    small_divide: bool = True,
) -> dict[int, int]:
    """New size for each value, near `scale` times it where that keeps the values' relations.

    A multiple of another value stays a multiple, a power of two one, order is kept, and so is divisibility by
    powers of two up to `smallest`, itself one, below which no value falls. Values below 17 and `frozen` ones stay.
    A value that cannot shrink under these rules stays, and what it is made of.
    `small_divide=False`: values below 17 do not count as divisors (a kernel size of 3 says nothing about a width).
    """
    ordered = sorted(set(values))
    kept = {value for value in ordered if value < SMALLEST_SCALED or value in frozen}
    while True:
        sizes, stuck = _try_scale(ordered, scale, kept, smallest, 2 if small_divide else SMALLEST_SCALED)
        if stuck is None:
            return sizes
        kept |= {value for value in ordered if value and stuck % value == 0}


def _try_scale(
    ordered: list[int], scale: float, kept: set[int], smallest: int, least_divisor: int
) -> tuple[dict[int, int], int | None]:
    sizes: dict[int, int] = {}
    floor = 0
    for value in ordered:
        if value in kept:
            sizes[value] = value
        else:
            divisors = [sizes[other] for other in sizes if other >= least_divisor and value % other == 0]
            step = math.lcm(math.gcd(value, smallest), *divisors)
            size = _nearest(value, max(value * scale, smallest, floor), step, smallest)
            if size is None:
                return sizes, value
            sizes[value] = size
        if value >= SMALLEST_SCALED and value not in kept:
            floor = max(floor, sizes[value])
    return sizes, None


def _nearest(value: int, target: float, step: int, grain: int) -> int | None:
    """The least allowed size of at least `target` for `value`, or None above `value`."""
    if value & (value - 1) == 0:
        size = max(1 << math.ceil(math.log2(target)), step)
    else:
        count = max(1, math.ceil(target / step))
        evenness = math.gcd(value, grain)
        if evenness < grain and math.gcd(step, grain) == evenness:
            count |= 1  # no more divisible by two than `value` is
        size = step * count
    return size if size <= value else None


def _constant(node: ast.AST) -> int | None:
    """Value of an expression of integer constants, or None."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int and node.value <= _MAX_VALUE else None
    if not isinstance(node, ast.BinOp):
        return None
    left, right = _constant(node.left), _constant(node.right)
    if left is None or right is None:
        return None
    value: int | None = None
    if isinstance(node.op, ast.Add):
        value = left + right
    elif isinstance(node.op, ast.Sub):
        value = left - right
    elif isinstance(node.op, ast.Mult):
        value = left * right
    elif isinstance(node.op, ast.FloorDiv) and right:
        value = left // right
    elif isinstance(node.op, ast.LShift) and 0 <= right <= 40:
        value = left << right
    elif isinstance(node.op, ast.Pow) and 0 <= right <= 40 and abs(left) <= 1 << 20:
        value = left**right
    return value if value is not None and abs(value) <= _MAX_VALUE else None


def _names_assigned(node: ast.Assign | ast.AnnAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}


def _constructor_names(tree: ast.Module) -> set[str]:
    """Module-level names that get_init_inputs uses, also through other names."""
    uses: dict[str, set[str]] = {}
    wanted: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            used = {name.id for name in ast.walk(node.value) if isinstance(name, ast.Name)}
            for target in _names_assigned(node):
                uses.setdefault(target, set()).update(used)
        elif isinstance(node, ast.FunctionDef) and node.name == "get_init_inputs":
            wanted |= {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
    pending = list(wanted)
    while pending:
        for name in uses.get(pending.pop(), set()) - wanted:
            wanted.add(name)
            pending.append(name)
    return wanted


def _line_starts(code: str) -> list[int]:
    starts = [0]
    for line in code.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _span(node: ast.AST, starts: list[int], lines: list[str]) -> tuple[int, int]:
    """Characters of a node; ast counts columns in UTF-8 bytes."""

    def place(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    assert isinstance(node, ast.expr) and node.end_lineno is not None and node.end_col_offset is not None
    return place(node.lineno, node.col_offset), place(node.end_lineno, node.end_col_offset)
