"""The task's own code, run by the referee: its model, its inputs, its outputs.

Execution mode is one everywhere: `.eval()`, `torch.no_grad()`. Whatever the task's code raises, SystemExit
included, becomes TaskRefusedError with the phase, the exception and the task's line; running out of memory
becomes TaskUnsupportedError. KeyboardInterrupt passes.
"""

import contextlib
import hashlib
import itertools
import sys
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import torch

from warpsmith.errors import TaskRefusedError, TaskUnreadableError, TaskUnsupportedError
from warpsmith.judge import mathematics
from warpsmith.judge.reference import oracle, recorder, weights
from warpsmith.judge.reference.allocation import AllocationGuard
from warpsmith.judge.reference.lacking import go_offline, lacking
from warpsmith.judge.reference.seeding import seed_all
from warpsmith.judge.runner import layout, values
from warpsmith.judge.task_mark import marked
from warpsmith.types.arguments import Arguments, constructor_arguments

NAMES = ("Model", "get_inputs", "get_init_inputs")
MAX_INPUTS = 1000
INPUT_SETS = 3
"""Held at once: as drawn, as shared with the runner, and as drawn again to compare."""
ORACLE_MEMORY = 8
"""Bytes of host memory wanted for a byte of inputs, state and outputs: float64, and intermediates of that size."""
ORACLE_OPERATIONS = 5e12
"""Multiplications and additions in products that a host does in float64 in about a minute."""


class Reference:
    """A loaded task on one device (`cuda`, `cuda:1`, `cpu`)."""

    def __init__(self, module: ModuleType, path: Path, device: str):
        self.device = torch.device(device)
        self._module = module
        self._path = path
        # A task that cannot draw or build on the device is not tried there again.
        self._draws_here = self._builds_here = self.device.type != "cpu"

    @classmethod
    def load(cls, code: str, path: Path, device: str) -> "Reference":
        """Executes `code` as a module of its own, as the file `path` (written if absent: `inspect` needs it).

        Raises TaskUnreadableError for code that does not parse or lacks a name, TaskRefusedError where it
        raises, TaskUnsupportedError where it needs a package, a hub's files or a network that are not there.
        """
        if not path.exists():
            path.write_text(code)
        try:
            compiled = compile(code, str(path), "exec", dont_inherit=True)
        except SyntaxError as e:
            raise TaskUnreadableError(f"the task, line {e.lineno}: not valid Python: {e.msg}") from e
        except (ValueError, RecursionError, MemoryError) as e:
            raise TaskUnreadableError(f"the task cannot be parsed as Python: {_first_line(e)}") from e
        module = ModuleType(f"warpsmith_task_{hashlib.sha256(code.encode()).hexdigest()[:16]}")
        module.__file__ = str(path)
        # dataclasses and pickle look classes up through their module.
        sys.modules[module.__name__] = module
        go_offline()
        mathematics.settle()
        with _task_code("import", path):
            exec(compiled, module.__dict__)
        missing = [name for name in NAMES if not callable(getattr(module, name, None))]
        if missing:
            raise TaskUnreadableError(f"the task does not define {', '.join(missing)}")
        return cls(module, path, device)

    def require_memory(self) -> None:
        """TaskUnsupportedError where a few sets of the inputs, as the judge holds them, exceed the host's memory.

        Told from the sizes asked for, before anything that large is allocated: on the CPU running out differs from
        any other error by nothing but its text, or ends the process. A GPU says so by itself.
        """
        if self.device.type == "cpu":
            with AllocationGuard(psutil.virtual_memory().available // INPUT_SETS):
                self.draw_inputs(0)

    def init_args(self) -> Arguments:
        """The constructor's arguments."""
        with _task_code("get_init_inputs()", self._path):
            return constructor_arguments(self._module.get_init_inputs(), self._module.Model)

    def new_model(self, seed: int, init_args: Arguments) -> torch.nn.Module:
        """A model with weights drawn from `seed`, in eval mode on the device.

        Built on the device itself; on the CPU where the task's code forbids it, and where the model holds tensors
        that its state dict does not carry: another process repeats those from the same seed, on the CPU.
        """

        def build() -> torch.nn.Module:
            seed_all(seed)
            model = self._module.Model(*init_args.args, **init_args.kwargs)
            if not isinstance(model, torch.nn.Module):
                raise TaskRefusedError("Model is not a torch.nn.Module")
            return model.eval().to(self.device)

        if self._builds_here:
            with contextlib.suppress(TaskRefusedError), self._building(), self.device:
                model = build()
                if not weights.unsaved(model):
                    return model
                del model
            self._builds_here = False
        with self._building():
            return build()

    @contextlib.contextmanager
    def _building(self) -> Iterator[None]:
        with _task_code("Model()", self._path), torch.no_grad():
            yield

    def draw_inputs(self, seed: int) -> list[Any]:
        """One fresh set of inputs on the device: tensors, numbers, strings, None; lists and dicts of these.

        Drawn on the device itself, on the CPU where the task's code forbids it. Raises TaskRefusedError for a
        dict in place of a list, values that are none of these, and a set without a single tensor.
        """
        if self._draws_here:
            with contextlib.suppress(TaskRefusedError):
                return self._draw(seed, self.device)
            self._draws_here = False
        return self._draw(seed, torch.device("cpu"))

    def _draw(self, seed: int, device: torch.device) -> list[Any]:
        with _task_code("get_inputs()", self._path), torch.no_grad(), device:
            seed_all(seed)
            inputs = as_input_list(self._module.get_inputs())
        try:
            spec, tensors = values.flatten(inputs, root="inputs", allow_named=False)
        except values.UnsupportedValue as e:
            raise TaskRefusedError(f"get_inputs(): {e}") from e
        if not tensors:
            raise TaskRefusedError("get_inputs() gives no tensor")
        with _task_code("moving the inputs", self._path):
            return values.unflatten(spec, [t.to(self.device) for t in tensors])

    def forward(self, model: torch.nn.Module, inputs: list[Any], *, seed: int | None) -> Any:
        """One forward, device idle afterwards.

        `seed` is set first, so that state drawn inside forward repeats; None leaves the generators alone.
        """
        with _task_code("forward", self._path), torch.no_grad():
            if seed is not None:
                seed_all(seed)
            output = model(*inputs)
            if self.device.type == "cuda":
                # A fault in a kernel shows only here.
                torch.cuda.synchronize(self.device)
            return output

    def faulting_operator(self, model: torch.nn.Module, inputs: list[Any]) -> str:
        """On a GPU, an operator of this forward that ends the process's CUDA context for values it does not expect.

        Where there is one, inputs that the task never draws must not be tried. Empty on the CPU, which raises.
        """
        if self.device.type != "cuda":
            return ""
        return recorder.faulting_operator(lambda: self.forward(model, inputs, seed=0))

    def oracle(self, model: torch.nn.Module, inputs: list[Any], *, seed: int) -> Any | None:
        """The same forward in float64 throughout, whatever dtypes the task's code names; `model` stays as it is.

        On the CPU, and then its tensors lie there, where the device's memory does not hold it. None where the task's
        code or the memory forbids it, and where the CPU would take minutes.
        """
        try:
            return self._exact(model, inputs, seed, self.device)
        except (TaskUnsupportedError, torch.OutOfMemoryError):
            if self.device.type == "cpu":
                return None
        except (TaskRefusedError, RuntimeError, TypeError):
            return None
        torch.cuda.empty_cache()
        try:
            if not self._cpu_can(model, inputs):
                return None
            return self._exact(model, inputs, seed, torch.device("cpu"))
        except (TaskRefusedError, TaskUnsupportedError, RuntimeError, TypeError):
            return None

    def _exact(self, model: torch.nn.Module, inputs: list[Any], seed: int, device: torch.device) -> Any:
        drawn_in = torch.get_default_dtype()
        exact = oracle.widened_model(model, device)
        spec, tensors = values.flatten(inputs)
        wide = oracle.widened_inputs(tensors, device)
        with oracle.promotion(drawn_in, device):
            return self.forward(exact, values.unflatten(spec, wide), seed=seed)

    def _cpu_can(self, model: torch.nn.Module, inputs: list[Any]) -> bool:
        """Whether the host has the memory for a forward in float64, and is done with it in a minute or so."""
        size = self.read_bytes(inputs, model.state_dict()) + self.output_bytes(model, inputs)
        if ORACLE_MEMORY * size > psutil.virtual_memory().available:
            return False
        return oracle.operations(lambda: self.forward(model, inputs, seed=0)) <= ORACLE_OPERATIONS

    def output_bytes(self, model: torch.nn.Module, inputs: list[Any]) -> int:
        """Bytes of a buffer that holds the outputs for `inputs`, alignment included. Runs forward."""
        output = self.forward(model, values.unflatten(*_cloned(inputs)), seed=0)
        return layout.pack(_tensors(output))[1]

    def read_bytes(self, inputs: Any, state: dict[str, torch.Tensor]) -> int:
        """Bytes of inputs and state, every byte of memory counted once."""
        return _distinct_bytes(_tensors(inputs) + list(state.values()))

    def written_bytes(self, output: Any) -> int:
        """Bytes of the outputs, every byte of memory counted once."""
        return _distinct_bytes(_tensors(output))


def as_input_list(found: object) -> list[Any]:
    """What `get_inputs` gave as a list: generators are run, a lone tensor is wrapped."""
    if isinstance(found, torch.Tensor):
        return [found]
    if isinstance(found, list | tuple | Iterator):
        inputs = list(itertools.islice(found, MAX_INPUTS + 1))
        if len(inputs) > MAX_INPUTS:
            raise TaskRefusedError(f"get_inputs() gives more than {MAX_INPUTS} inputs")
        return inputs
    raise TaskRefusedError(f"get_inputs() gives a {type(found).__name__}, not a list of forward's arguments")


def _cloned(inputs: list[Any]) -> tuple[dict[str, Any], list[torch.Tensor]]:
    spec, tensors = values.flatten(inputs)
    return spec, [t.clone() for t in tensors]


def _tensors(value: Any) -> list[torch.Tensor]:
    try:
        return values.flatten(value)[1]
    except values.UnsupportedValue as e:
        raise TaskRefusedError(f"the model's output cannot be judged: {e}") from e


@contextlib.contextmanager
def _task_code(phase: str, path: Path) -> Iterator[None]:
    """Turns what the task's code raises into the task's errors."""
    try:
        with marked(path, phase):
            yield
    except (KeyboardInterrupt, TaskRefusedError, TaskUnsupportedError):
        raise
    except (torch.OutOfMemoryError, MemoryError) as e:
        raise TaskUnsupportedError(
            f"{phase} needs more memory than this device has", hint="make the task smaller"
        ) from e
    except BaseException as e:
        if lack := lacking(e):
            raise TaskUnsupportedError(f"{phase} needs {lack.what}", hint=lack.hint) from e
        # SystemExit too: a task must not end the referee.
        lines = [f.lineno for f in traceback.extract_tb(e.__traceback__) if f.filename == str(path)]
        where = f" at line {lines[-1]} of the task" if lines else ""
        raise TaskRefusedError(f"{phase} raised {type(e).__name__}{where}: {_first_line(e)}") from e


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else "(no message)"


def _distinct_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes covered by the tensors. Never too many: a floor on memory traffic is built on it."""
    spans: dict[int, dict[tuple[int, int], int]] = {}
    for t in tensors:
        if not t.numel():
            continue
        start = t.data_ptr()
        extent = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
        # An expanded dimension rereads the same memory; windows that overlap are bounded by their extent.
        own = t.element_size()
        for n, s in zip(t.shape, t.stride(), strict=True):
            own *= n if s else 1
        span = (start, start + extent * t.element_size())
        covered = spans.setdefault(t.untyped_storage().data_ptr(), {})
        covered[span] = max(covered.get(span, 0), own)
    return sum(min(sum(views.values()), _union(views)) for views in spans.values())


def _union(spans: Iterable[tuple[int, int]]) -> int:
    total, reached = 0, 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total
