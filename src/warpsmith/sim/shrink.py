"""Derived tasks: the same model at sizes that the simulator can run.

A task's text states its sizes; `candidates` writes smaller ones into it. Which of them fits is found by running the
task on PyTorch's meta device, which allocates nothing, in a process of its own (`warpsmith.sim.shrink_worker`).
"""

import itertools
import json
import signal
import subprocess
import sys
import tempfile
import traceback
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from warpsmith.errors import InfrastructureError, TaskRefusedError, TaskUnreadableError, TaskUnsupportedError
from warpsmith.sim.sizes import SMALLEST_SCALED, SizeLiteral, replace_literals, scaled_sizes, size_literals
from warpsmith.types import Record, Task, TaskSource
from warpsmith.types.arguments import constructor_arguments

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
    """What the task's own code raised when it made its inputs or its model, on the CPU too; empty where nothing."""

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

    Task code runs in a process of its own. Raises TaskRefusedError where it cannot be imported or does not make its
    inputs and its model, TaskUnsupportedError where no derived task fits or works.
    """
    variants = [task, *candidates(task)]
    original: TaskSize | None = None
    unproven: Task | None = None
    for variant, size in zip(variants, _measured(variants, max_elements), strict=False):
        if original is None:
            original = size
            if size.error:
                raise TaskRefusedError(size.error)
        if size.fits(max_elements, max_flops):
            if size.forward:
                return variant
            unproven = unproven or variant
    if unproven is not None and not any(size.forward for size in _measured([task], None)):
        return unproven  # forward runs on the meta device at no size, so that its failure says nothing
    assert original is not None
    raise TaskUnsupportedError(
        f"task {task.name} is too large for the simulator (largest tensor "
        f"{max(original.largest, original.largest_parameter):,} elements) and "
        "its text has no sizes that can be scaled down far enough",
        hint="judge it with --device cuda, or state its sizes as module-level integers",
    )


def _measured(tasks: list[Task], max_elements: int | None) -> Iterator[TaskSize]:
    """Sizes in order, as the worker finds them, at least one; ends early where a later task ends the worker."""
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
        measured = 0
        try:
            assert worker.stdout is not None
            for line in worker.stdout:
                try:
                    size = TaskSize.model_validate_json(line)
                except ValidationError:
                    break
                measured += 1
                yield size
            if not measured:
                raise _unmeasured(tasks[0], worker.wait())
        finally:
            worker.kill()
            worker.wait()
            worker.stdout.close()


def _unmeasured(task: Task, status: int) -> Exception:
    """Whose fault it is that the worker ended, with this status, before it had measured anything."""
    hint = "judge it with --device cuda"
    if status == -signal.SIGALRM:
        return TaskUnsupportedError(
            f"measuring task {task.name} for the simulator took longer than {_TIMEOUT_S:g} s", hint=hint
        )
    if status == -signal.SIGKILL:
        return TaskUnsupportedError(f"measuring task {task.name} takes more memory than there is", hint=hint)
    if status <= 0:
        how = signal.Signals(-status).name if status else "exit status 0"
        return TaskRefusedError(f"the task's own code ended the process that it ran in ({how})")
    return InfrastructureError(
        f"the process that measures tasks ended with status {status}", hint="run `warpsmith doctor`"
    )


# --- in the worker's process


class _RaisedError(Exception):
    """The task's own code raised; the message says in which step, where and what."""


def measure_elements(code: str) -> int:
    """Elements of the task's largest tensor. Runs the task's code in this process; imports torch."""
    size = measure(code)
    return max(size.largest, size.largest_parameter)


def measure(code: str, max_elements: int | None = None, path: str = "<task>") -> TaskSize:
    """Runs a task on the meta device in this process: inputs, constructor, and forward where that works.

    Forward is left out where the task exceeds `max_elements` without it. `path` is the file that holds `code`.
    """
    try:
        module = _either_device("import", path, lambda: _imported(code, path))
        inputs = _to_meta(_either_device("get_inputs()", path, lambda: _as_list(module.get_inputs())))
        init = _either_device(
            "get_init_inputs()", path, lambda: constructor_arguments(module.get_init_inputs(), module.Model)
        )
        model = _either_device("Model()", path, lambda: module.Model(*init.args, **init.kwargs).eval()).to(
            "meta"
        )
    except _RaisedError as error:
        return TaskSize(error=str(error))
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


def _either_device(step: str, path: str, make: Callable[[], Any]) -> Any:
    """What `make` gives on the meta device; on the CPU where it needs values. Raises _RaisedError."""
    import torch

    for device in ("meta", "cpu"):
        try:
            with torch.device(device), torch.no_grad():
                return make()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a task's own code raises is its answer
            raised = error  # SystemExit too
    lines = [frame.lineno for frame in traceback.extract_tb(raised.__traceback__) if frame.filename == path]
    where = f" at line {lines[-1]} of the task" if lines else ""
    said = (str(raised).strip().splitlines() or ["(no message)"])[0][:300]
    raise _RaisedError(f"{step} raised {type(raised).__name__}{where}: {said}") from raised


def _imported(code: str, path: str) -> types.ModuleType:
    module = types.ModuleType("warpsmith_task")
    module.__file__ = path
    # dataclasses and pickle look classes up through their module
    sys.modules[module.__name__] = module
    exec(compile(code, path, "exec", dont_inherit=True), module.__dict__)
    return module


def _as_list(found: Any) -> list[Any]:
    """Arguments as a list: a lone value is one argument; a generator is run."""
    if isinstance(found, list | tuple | Iterator):
        return list(found)
    return [found]


def _to_meta(value: Any) -> Any:
    """The value with every tensor in lists, tuples and dicts on the meta device."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.to("meta")
    if isinstance(value, dict):
        return {key: _to_meta(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_to_meta(item) for item in value)
    return value


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
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - a forward that needs values cannot run on the meta device
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


def size_line(path: Path, max_elements: int | None) -> str:
    """One JSON line of `measure` for the task file at `path`."""
    return json.dumps(measure(path.read_text(), max_elements, str(path)).model_dump())
