"""One task's check, in a process of its own: admission, parameters that do not matter, rough sizes and times."""

import contextlib
import gc
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from warpsmith.errors import InfrastructureError, TaskError, TaskRefusedError, TaskUnsupportedError
from warpsmith.gpu.devices import GpuInfo, bandwidth_gb_s, list_gpus
from warpsmith.gpu.local import visible_gpus
from warpsmith.judge.admission import fitness
from warpsmith.judge.admission.check import identity
from warpsmith.judge.admission.rough_times import Turns, compiled, event_ms
from warpsmith.judge.correctness import gates
from warpsmith.judge.machine import describe_machine
from warpsmith.judge.reference.model import Reference
from warpsmith.judge.runner import values
from warpsmith.sim.shrink import MAX_ELEMENTS, MAX_FLOPS, measure, shrink
from warpsmith.types import (
    CheckSettings,
    Device,
    Fitness,
    Purpose,
    Task,
    TaskCheck,
    TaskEstimate,
    TaskSource,
    Weakness,
)

SYNTHESIZED_MS = (1.0, 100.0)
"""Eager time that a synthesized task must lie within."""
PARAMETERS_BUDGET_S = 1.0
SEED = 4242
"""Of the inputs and forwards that sizes, times and parameters are told from."""
_SYNTHESIZED = frozenset({TaskSource.SYNTHESIZED, TaskSource.OPS6K})
_NAMES_SHOWN = 4

Report = Callable[[TaskCheck], None]


def check_task(
    task: Task, settings: CheckSettings, path: Path, report: Report, turns: Turns | None = None
) -> None:
    """Checks `task`, whose code is written to `path`, and reports the record of what is known.

    Reported twice where torch.compile is tried, since that may end this process or take for ever: once before it.
    With `turns` it is one of many checks: it uses the GPU in turns, and what is refused already is neither timed nor
    compiled. Raises InfrastructureError where the device does not work.
    """
    gpu = _first_gpu() if settings.device is Device.CUDA else None
    check = _Check(task, settings, path, gpu, turns)
    held = turns or Turns()

    def goes_on() -> bool:
        return gpu is not None and check.measured is not None and not (turns and check.refused)

    try:
        with held.shared():
            check.examine()
        if goes_on():
            with held.alone():
                check.time_eager()
        if goes_on() and settings.compile:
            report(check.record())
            check.try_compile()
    except TaskUnsupportedError as error:
        check.unsupported = _line(error)
    except TaskError as error:
        check.problems.append(str(error))
        check.weaknesses.append(Weakness.RAISES)
    except torch.OutOfMemoryError:
        check.unsupported = "the task and its check need more memory than this device has"
    report(check.record())


@dataclass
class _Measured:
    """Rough figures as they come."""

    input_bytes: int
    matter_bytes: int
    weight_bytes: int
    output_bytes: int
    peak_bytes: int | None = None
    eager_ms: float | None = None
    compile_ms: float | None = None


@dataclass
class _Check:
    """One check's state."""

    task: Task
    settings: CheckSettings
    path: Path
    gpu: GpuInfo | None
    turns: Turns | None = None
    problems: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    weaknesses: list[Weakness] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unsupported: str = ""
    checked_hash: str | None = None
    full_size_elements: int | None = None
    parameters: int = 0
    parameters_examined: int = 0
    measured: _Measured | None = None

    def __post_init__(self) -> None:
        self._since = time.monotonic()

    def examine(self) -> None:
        """All but times."""
        checked = self.task if self.gpu else self._fit_simulator()
        path = self.path.with_name("checked.py")
        self.reference = Reference.load(checked.code, path, "cuda" if self.gpu else "cpu")
        self.model = self.reference.new_model(SEED, self.reference.init_args())
        found = fitness.examine(self.reference, self.model)
        self.problems += found.problems
        self.flags += found.flags
        self.weaknesses += found.weaknesses
        with self._refusals():
            self._measure(found)

    @contextlib.contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except TaskRefusedError as error:
            if not self.problems:  # else it has been said in another way
                self.problems.append(str(error))
                self.weaknesses.append(Weakness.RAISES)

    @property
    def refused(self) -> bool:
        """Whether it is unfit by what is known now."""
        return bool(self._judged()[0])

    def _fit_simulator(self) -> Task:
        """The task itself where the simulator can run it, else a smaller one."""
        # Imported here first: only so is it known what kind of error the import raised.
        Reference.load(self.task.code, self.path, "cpu")
        size = measure(self.task.code, path=str(self.path))
        if size.error:
            raise TaskRefusedError(size.error)
        if size.forward and size.fits(MAX_ELEMENTS, MAX_FLOPS):
            return self.task
        checked = shrink(self.task)
        if checked.derived_from is not None:
            self.checked_hash = checked.task_hash
            self.full_size_elements = size.total
            self.notes.append("checked at smaller sizes that the simulator can run")
        return checked

    def _measure(self, found: fitness.Admission) -> None:
        """Draws one set of inputs, and uses it for sizes and parameters; times are taken with it too."""
        self.inputs = self.reference.draw_inputs(SEED)
        tensors = values.flatten(self.inputs)[1]
        sizes = [self.reference.read_bytes([t], {}) for t in tensors]
        # What was not shown not to matter is taken to matter.
        matter = found.inputs_matter or (True,) * len(sizes)
        input_bytes = self.reference.read_bytes(self.inputs, {})
        matter_bytes = sum(size for size, matters in zip(sizes, matter, strict=False) if matters)
        del tensors
        if self.gpu:
            gc.collect()
            torch.cuda.reset_peak_memory_stats()
        output = self.reference.forward(self.model, self.inputs, seed=SEED)
        self.measured = _Measured(
            input_bytes=input_bytes,
            matter_bytes=min(input_bytes, matter_bytes),
            weight_bytes=self.reference.read_bytes([], self.model.state_dict()),
            output_bytes=self.reference.written_bytes(output),
            peak_bytes=torch.cuda.max_memory_allocated() if self.gpu else None,
        )
        if not self.problems and not found.rounding_noise:
            self._examine_parameters(output)

    def time_eager(self) -> None:
        """Times forward as it is."""
        assert self.measured is not None
        with self._refusals():
            self.measured.eager_ms = self._eager_ms()

    def _eager_ms(self) -> float:
        try:
            return event_ms(lambda: self.model(*self.inputs))
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # the task's own code: it had run a few times before
            raise TaskRefusedError(
                f"forward raised {type(error).__name__} when called again: {_first(error)}"
            ) from error

    def _examine_parameters(self, output: Any) -> None:
        idle, examined = idle_parameters(self.reference, self.model, self.inputs, output)
        self.parameters, self.parameters_examined = len(list(self.model.parameters())), examined
        if idle:
            self.flags.append(f"{_parameters(idle)} not matter")
            self.weaknesses.append(Weakness.IDLE_PARAMETER)
        if examined < self.parameters:
            self.notes.append(f"{examined} of {self.parameters} parameters were examined")

    def try_compile(self) -> None:
        """Runs and times torch.compile in its default mode."""
        assert self.measured is not None
        try:
            with compiled(self.model, self.inputs, self.turns) as call:
                self.measured.compile_ms = event_ms(call)
        except torch.OutOfMemoryError:
            self.notes.append("torch.compile ran out of memory")
        except Exception as error:  # noqa: BLE001  whatever a compiler raises, the task does not run in it
            self.flags.append(f"does not run in torch.compile: {type(error).__name__}: {_first(error)}")
            self.weaknesses.append(Weakness.NO_COMPILE)

    def record(self) -> TaskCheck:
        """The record of what is known now."""
        problems, flags, weaknesses = self._judged()
        notes = list(self.notes)
        fitness = Fitness.UNFIT if problems else Fitness.FIT
        if self.unsupported and not problems:
            fitness = Fitness.UNSUPPORTED
            notes.insert(0, self.unsupported)
        return TaskCheck(
            **identity(self.task, self.settings),
            fitness=fitness,
            problems=tuple(problems),
            flags=tuple(flags),
            weaknesses=tuple(dict.fromkeys(weaknesses)),
            notes=tuple(notes),
            checked_hash=self.checked_hash,
            parameters=self.parameters,
            parameters_examined=self.parameters_examined,
            estimate=self._estimate(),
            machine=describe_machine(self.settings.device, self.gpu, "none"),
            seconds=round(time.monotonic() - self._since, 3),
        )

    def _judged(self) -> tuple[list[str], list[str], list[Weakness]]:
        """Problems, flags and their kinds for the purpose: training refuses what is only flagged elsewhere."""
        problems, flags, kinds = list(self.problems), list(self.flags), list(self.weaknesses)
        eager_ms = self.measured.eager_ms if self.measured else None
        low, high = SYNTHESIZED_MS
        if self.task.source in _SYNTHESIZED and eager_ms is not None and not low <= eager_ms <= high:
            flags.append(f"eager takes {eager_ms:.3g} ms, and {low:g} to {high:g} are wanted")
            kinds.append(Weakness.OUTSIDE_TIME)
        if self.settings.purpose is Purpose.TRAINING:
            problems, flags = problems + flags, []
        return problems, flags, kinds

    def _estimate(self) -> TaskEstimate | None:
        m = self.measured
        if m is None:
            return None
        floor_ms = headroom = None
        bandwidth = bandwidth_gb_s(self.gpu.name) if self.gpu else None
        if bandwidth is not None:
            floor_ms = (m.matter_bytes + m.weight_bytes + m.output_bytes) / bandwidth / 1e6
            times = [ms for ms in (m.eager_ms, m.compile_ms) if ms is not None]
            headroom = min(times) / floor_ms if times and floor_ms > 0 else None
        return TaskEstimate(
            input_bytes=m.input_bytes, weight_bytes=m.weight_bytes, output_bytes=m.output_bytes,
            peak_bytes=m.peak_bytes, full_size_elements=self.full_size_elements,
            eager_ms=m.eager_ms, compile_ms=m.compile_ms, floor_ms=floor_ms, headroom=headroom,
        )  # fmt: skip


def idle_parameters(
    reference: Reference, model: torch.nn.Module, inputs: list[Any], output: Any
) -> tuple[list[str], int]:
    """Names of parameters whose values do not matter, and how many were examined.

    One forward each, on inputs that gave `output` with the seed of checks, while PARAMETERS_BUDGET_S lasts.
    """
    idle, examined, begun = [], 0, time.monotonic()
    for name, parameter in model.named_parameters():
        if time.monotonic() - begun > PARAMETERS_BUDGET_S:
            break
        examined += 1
        if not _matters(reference, model, inputs, parameter, output):
            idle.append(name)
    return idle, examined


def _matters(
    reference: Reference,
    model: torch.nn.Module,
    inputs: list[Any],
    parameter: torch.nn.Parameter,
    output: Any,
) -> bool:
    kept = parameter.detach().clone()
    with torch.no_grad():
        parameter.copy_(_other_values(kept))
        try:
            other = reference.forward(model, inputs, seed=SEED)
        except TaskRefusedError:
            return True  # values that the task cannot take show that they matter
        finally:
            parameter.copy_(kept)
    return not gates.compare(output, other, tolerance=fitness.SAME).scale_gate


def _first_gpu() -> GpuInfo:
    """The GPU that this process was given, shown to work before any of the task's code runs."""
    gpus = visible_gpus(list_gpus(), os.environ.get("CUDA_VISIBLE_DEVICES"))
    if not gpus:
        raise InfrastructureError("no GPU is visible to the check", hint="run `warpsmith doctor`")
    try:
        torch.zeros(1, device="cuda").item()
    except RuntimeError as error:
        raise InfrastructureError(f"the GPU does not work: {_first(error)}") from error
    return gpus[0]


def _other_values(values_now: torch.Tensor) -> torch.Tensor:
    """Other values of the same size: no shift or factor that a following normalisation would undo."""
    if values_now.dtype == torch.bool:
        return ~values_now
    if not (values_now.is_floating_point() or values_now.is_complex()):
        return values_now.flip(list(range(values_now.dim())))
    size = values_now.abs().square().mean().sqrt()
    return values_now + torch.randn_like(values_now) * torch.where(size > 0, size, torch.ones_like(size))


def _parameters(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN]) + (", …" if len(names) > _NAMES_SHOWN else "")
    return f"parameter {shown} does" if len(names) == 1 else f"{len(names)} parameters ({shown}) do"


def _line(error: TaskError) -> str:
    return f"{error}; {error.hint}" if error.hint else str(error)


def _first(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else "(no message)"
