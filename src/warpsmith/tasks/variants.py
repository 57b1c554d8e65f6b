"""Variants of a task: other sizes, other values in its inputs. Each is a task with a hash of its own.

A size is an integer that the task's text assigns at module level, such as KernelBench's `batch_size = 128`.
"""

import ast
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from warpsmith.errors import TaskUnreadableError, UsageError
from warpsmith.types import Task, TaskSource

INPUTS = "inputs"
"""The name that stands for the values of inputs instead of a size."""
MOST_VARIANTS = 64


class InputKind(StrEnum):
    """Values of floating-point inputs. Shapes, dtypes, integer and other inputs stay as the task draws them."""

    TASK = "task"
    NORMAL = "normal"
    UNIFORM = "uniform"
    SPARSE = "sparse"
    LARGE = "large"


_VALUES = {
    InputKind.NORMAL: "torch.randn_like(x)",
    InputKind.UNIFORM: "torch.rand_like(x)",
    InputKind.SPARSE: "torch.randn_like(x) * (torch.rand_like(x) < 0.1)",
    InputKind.LARGE: "100 * torch.randn_like(x)",
}
_WRAPPER = '''

_inputs_of_the_task = get_inputs


def get_inputs():
    """The task's inputs with other values: {kind}."""
    import torch

    drawn = _inputs_of_the_task()
    drawn = [drawn] if isinstance(drawn, torch.Tensor) else list(drawn)
    chosen = [isinstance(x, torch.Tensor) and x.is_floating_point() for x in drawn]
    return [{values} if other else x for x, other in zip(drawn, chosen)]
'''


@dataclass(frozen=True)
class Variant:
    """A task, and in what it differs from the one it was made of: `batch_size=16, inputs=sparse`."""

    label: str
    task: Task


def variants(task: Task, options: Sequence[str]) -> list[Variant]:
    """Every combination of `NAME=VALUE,VALUE…`, where NAME is a size of the task or `inputs`.

    Raises UsageError for what cannot be read, is no size of the task, or comes to more than 64 combinations.
    """
    choices = [_choices(option) for option in options]
    names = [name for name, _ in choices]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"{repeated} is varied twice", hint="give all its values in one option")
    combinations = list(itertools.product(*(values for _, values in choices)))
    if len(combinations) > MOST_VARIANTS:
        raise UsageError(
            f"{len(combinations)} variants are too many", hint=f"ask for {MOST_VARIANTS} at most"
        )
    return [_variant(task, dict(zip(names, values, strict=True))) for values in combinations]


def sizes(task: Task) -> dict[str, int]:
    """The sizes that the task's text assigns, by name. Raises TaskUnreadableError for text that is not Python."""
    return {name: value for name, value, _ in _assignments(task)}


def _choices(option: str) -> tuple[str, list[str]]:
    name, equals, values = option.partition("=")
    words = [word.strip() for word in values.split(",") if word.strip()]
    if not equals or not name.strip() or not words:
        raise UsageError(f"cannot read {option!r}", hint="write NAME=VALUE,VALUE such as batch_size=1,16,64")
    return name.strip(), words


def _variant(task: Task, chosen: dict[str, str]) -> Variant:
    code, kind = task.code, InputKind.TASK
    numbers = {}
    for name, word in chosen.items():
        if name == INPUTS:
            kind = _kind(word)
        else:
            numbers[name] = _number(name, word)
    code = _with_sizes(task, numbers)
    if kind is not InputKind.TASK:
        code += _WRAPPER.format(kind=kind.value, values=_VALUES[kind])
    label = ", ".join(f"{name}={word}" for name, word in chosen.items())
    if code == task.code:
        return Variant(label, task)
    origin = task.derived_from or task.task_hash
    update = {"code": code, "source": TaskSource.DERIVED, "derived_from": origin}
    return Variant(label, task.model_copy(update=update))


def _kind(word: str) -> InputKind:
    try:
        return InputKind(word)
    except ValueError:
        known = ", ".join(kind.value for kind in InputKind)
        raise UsageError(f"unknown values of inputs {word!r}", hint=f"choose of: {known}") from None


def _number(name: str, word: str) -> int:
    if not word.isascii() or not word.isdigit() or int(word) == 0:
        raise UsageError(f"{name}={word} is no size", hint="sizes are whole numbers from 1 on")
    return int(word)


def _with_sizes(task: Task, numbers: dict[str, int]) -> str:
    found = {name: place for name, _, place in _assignments(task)}
    for name in numbers:
        if name not in found:
            known = ", ".join(found) or "none"
            raise UsageError(f"task {task.name} assigns no size {name}", hint=f"its sizes: {known}")
    text = task.code.encode()
    # from the end, so that places before stay right
    for name in sorted(numbers, key=lambda name: found[name], reverse=True):
        start, end = found[name]
        text = text[:start] + str(numbers[name]).encode() + text[end:]
    return text.decode()


def _assignments(task: Task) -> list[tuple[str, int, tuple[int, int]]]:
    """Name, value and place (in bytes) of each integer assigned once at module level."""
    try:
        tree = ast.parse(task.code)
    except SyntaxError as error:
        raise TaskUnreadableError(
            f"task {task.name}: syntax error in line {error.lineno}: {error.msg}"
        ) from error
    starts = [0, *itertools.accumulate(len(line) for line in task.code.encode().splitlines(keepends=True))]
    found: dict[str, list[ast.expr | None]] = {}
    for node in tree.body:
        for name, value in _bindings(node):
            found.setdefault(name, []).append(value)
    found_once = {name: value for name, (value, *more) in found.items() if not more and _is_size(value)}
    return [
        (name, v.value, (starts[v.lineno - 1] + v.col_offset, starts[v.end_lineno - 1] + v.end_col_offset))
        for name, v in found_once.items()
    ]


def _bindings(node: ast.stmt) -> list[tuple[str, ast.expr | None]]:
    if isinstance(node, ast.Assign):
        targets = [(t, node.value) for t in node.targets]
    elif isinstance(node, ast.AnnAssign | ast.AugAssign):
        targets = [(node.target, node.value if isinstance(node, ast.AnnAssign) else None)]
    else:
        return []
    return [(t.id, value) for t, value in targets if isinstance(t, ast.Name)]


def _is_size(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and type(value.value) is int and value.value > 0
