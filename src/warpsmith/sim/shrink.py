"""Derived tasks: the same model at sizes that the simulator can run.

A task's text states its sizes; `candidates` writes smaller ones into it. Which of them fits is found by running the
task on PyTorch's meta device, which allocates nothing, in a process of its own (`warpsmith.sim.shrink_worker`).
"""

import itertools
import json
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from warpsmith.errors import TaskUnreadableError, TaskUnsupportedError
from warpsmith.sim.sizes import SMALLEST_SCALED, SizeLiteral, replace_literals, scaled_sizes, size_literals
from warpsmith.types import Record, Task, TaskSource

MAX_ELEMENTS = 1 << 20
PARAMETER_FACTOR = 16
"""Parameters may be this many times larger than the tensors that move through the model."""
MAX_FLOPS = 1 << 31
_HALVINGS = 24
_RULES = ((16, True), (16, False), (8, False), (4, False))
"""Least size and whether small values count as divisors, from careful to bold."""
_TIMEOUT_S = 180.0


class TaskSize(Record):
    """What a task's tensors come to, seen on the meta device. Counts are elements."""

    largest: int = 0
    """Largest input, output or intermediate tensor."""
    total: int = 0
    """Inputs, parameters, buffers and outputs together."""
    largest_parameter: int = 0
    flops: int = 0
    """Of the forward's matrix products and convolutions, a multiply-add as two."""
    forward: bool = False
    """Whether forward ran on the meta device; where not, it is not part of the counts."""
    error: str = ""
    """Why inputs or the model could not be made there; empty where they could."""

    def fits(self, max_elements: int, max_flops: int) -> bool:
        """Whether the simulator can be expected to run it in seconds."""
        return (
            not self.error
            and self.largest <= max_elements
            and self.largest_parameter <= max_elements * PARAMETER_FACTOR
            and self.flops <= max_flops
        )


def candidates(task: Task) -> Iterator[Task]:
    """Derived tasks, by and large from larger to smaller; none where the text states no size that may shrink.

    Of each scale two: one that shrinks only what the inputs state (the model stays as it is), one that shrinks all.
    Last, single input sizes on their own.
    Raises TaskUnreadableError for text that is not Python.
    """
    try:
        literals = size_literals(task.code)
    except SyntaxError as error:
        raise TaskUnreadableError(
            f"task {task.name}: syntax error in line {error.lineno}: {error.msg}"
        ) from error
    if not any(literal.value >= SMALLEST_SCALED for literal in literals):
        return
    seen = {task.code}
    for code in _smaller_codes(task.code, literals):
        if code not in seen:
            seen.add(code)
            yield derived(task, code)


def _smaller_codes(code: str, literals: list[SizeLiteral]) -> Iterator[str]:
    values = {literal.value for literal in literals}
    of_model = frozenset(literal.value for literal in literals if literal.constructs)
    of_inputs = [literal for literal in literals if not literal.constructs]
    for (smallest, small_divide), step in itertools.product(_RULES, range(1, 2 * _HALVINGS + 1)):
        for frozen in (of_model, frozenset()):
            sizes = scaled_sizes(values, 2 ** (-step / 2), frozen, smallest, small_divide)
            yield replace_literals(code, literals, sizes)
    for literal in of_inputs:  # the batch alone, say, even where a width has the same value
        for step in range(1, _HALVINGS + 1):
            sizes = scaled_sizes([literal.value], 2**-step, smallest=1, small_divide=False)
            yield replace_literals(code, [literal], sizes)


def derived(task: Task, code: str) -> Task:
    """The task with other code: its own hash, and the hash of the one that it comes from."""
    origin = task.derived_from or task.task_hash
    return task.model_copy(update={"code": code, "source": TaskSource.DERIVED, "derived_from": origin})


def shrink(task: Task, *, max_elements: int = MAX_ELEMENTS, max_flops: int = MAX_FLOPS) -> Task:
    """The task itself where it fits, else its largest derived task that does.

    Task code runs in a process of its own. Raises TaskUnsupportedError where no derived task fits or works.
    """
    variants = [task, *candidates(task)]
    original: TaskSize | None = None
    unproven: Task | None = None
    for variant, size in zip(variants, _measured(variants, max_elements), strict=False):
        original = original or size
        if size.fits(max_elements, max_flops):
            if size.forward:
                return variant
            unproven = unproven or variant
    if unproven is not None and not any(size.forward for size in _measured([task], None)):
        return unproven  # forward runs on the meta device at no size, so that its failure says nothing
    if original is None or original.error:
        reason = original.error if original else "measuring it timed out"
        raise TaskUnsupportedError(
            f"task {task.name} cannot be measured for the simulator: {reason}",
            hint="judge it with --device cuda",
        )
    raise TaskUnsupportedError(
        f"task {task.name} is too large for the simulator (largest tensor "
        f"{max(original.largest, original.largest_parameter):,} elements) and "
        "its text has no sizes that can be scaled down far enough",
        hint="judge it with --device cuda, or state its sizes as module-level integers",
    )


def _measured(tasks: list[Task], max_elements: int | None) -> Iterator[TaskSize]:
    """Sizes in order, as the worker finds them; ends early where the worker dies or runs out of time."""
    with tempfile.TemporaryDirectory(prefix="warpsmith-shrink-") as folder:
        paths = []
        for number, task in enumerate(tasks):
            path = Path(folder) / f"{number}.py"
            path.write_text(task.code)
            paths.append(str(path))
        argv = [sys.executable, "-I", "-m", "warpsmith.sim.shrink_worker", "--timeout", str(_TIMEOUT_S)]
        argv += ["--max-elements", str(max_elements)] if max_elements is not None else []
        argv += paths
        worker = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        )
        try:
            assert worker.stdout is not None
            for line in worker.stdout:
                try:
                    yield TaskSize.model_validate_json(line)
                except ValidationError:
                    return
        finally:
            worker.kill()
            worker.wait()


# --- in the worker's process


def measure_elements(code: str) -> int:
    """Elements of the task's largest tensor. Runs the task's code in this process; imports torch."""
    size = measure(code)
    return max(size.largest, size.largest_parameter)


def measure(code: str, max_elements: int | None = None) -> TaskSize:
    """Runs a task on the meta device in this process: inputs, constructor, and forward where that works.

    Forward is left out where the task exceeds `max_elements` without it.
    """
    import torch

    module = types.ModuleType("warpsmith_task")
    try:
        with torch.device("meta"), torch.no_grad():
            exec(compile(code, "<task>", "exec"), module.__dict__)
            inputs = list(module.get_inputs())
        model = _model(module)
    except Exception as error:  # noqa: BLE001 - whatever a task's own code raises is its answer
        return TaskSize(error=(str(error).splitlines() or [""])[0][:300] or type(error).__name__)
    parameters = [
        *_tensors(getattr(model, "parameters", list)()),
        *_tensors(getattr(model, "buffers", list)()),
    ]
    tensors = _tensors(inputs)
    size = TaskSize(
        largest=max((tensor.numel() for tensor in tensors), default=0),
        total=sum(tensor.numel() for tensor in [*tensors, *parameters]),
        largest_parameter=max((tensor.numel() for tensor in parameters), default=0),
    )
    if max_elements is not None and not size.fits(max_elements, 0):
        return size
    forward, flops, largest, outputs = _forward(model, inputs)
    return size.model_copy(
        update={
            "largest": max([size.largest, largest, *(tensor.numel() for tensor in outputs)]),
            "total": size.total + sum(tensor.numel() for tensor in outputs),
            "flops": flops,
            "forward": forward,
        }
    )


def _model(module: Any) -> Any:
    """The task's model on the meta device; made on the CPU first where its constructor needs values."""
    import torch

    with torch.no_grad():
        try:
            with torch.device("meta"):
                model = module.Model(*module.get_init_inputs())
        except (RuntimeError, NotImplementedError):
            model = module.Model(*module.get_init_inputs()).to("meta")
    return model.eval()


def _forward(model: Any, inputs: list[Any]) -> tuple[bool, int, int, list[Any]]:
    """Whether forward runs, its FLOPs, its largest intermediate, its outputs."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import FlopCounterMode

    class Largest(TorchDispatchMode):
        elements = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if not func.is_view:
                self.elements = max([self.elements, *(tensor.numel() for tensor in _tensors(result))])
            return result

    largest = Largest()
    counter = FlopCounterMode(display=False)
    try:
        with torch.device("meta"), torch.no_grad(), counter, largest:
            outputs = model(*inputs)
    except Exception:  # noqa: BLE001 - a forward that needs values cannot run on the meta device
        return False, 0, 0, []
    return True, int(counter.get_total_flops()), largest.elements, _tensors(outputs)


def _tensors(value: Any) -> list[Any]:
    """All tensors in nested lists, tuples and dicts."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in _tensors(item)]
    if isinstance(value, list | tuple) or hasattr(value, "__next__"):
        return [tensor for item in value for tensor in _tensors(item)]
    return []


def size_line(code: str, max_elements: int | None) -> str:
    """One JSON line of `measure(code, max_elements)`."""
    return json.dumps(measure(code, max_elements).model_dump())
