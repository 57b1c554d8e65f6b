"""Launch parameters chosen by measurement: the neighbours of the defaults are built together and timed one by one."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from warpsmith.optimizer.build import KERNELS_PATH, Plan
from warpsmith.optimizer.cuda_source import Segment, cuda_file
from warpsmith.optimizer.cuda_text import kernel_buffers
from warpsmith.optimizer.library import Library
from warpsmith.optimizer.plan import REGISTER_BUDGET, Launch, is_windowed, kept_arrays, traffic_bytes
from warpsmith.types import CompileStatus, Submission

if TYPE_CHECKING:
    from warpsmith.types import Target
    from warpsmith.types.protocols import Compiler

MAX_TUNED = 4
"""Kernels tuned for one task: those that move the most bytes."""
MIN_BYTES = 8 << 20
"""Below this a kernel's time is its launch."""
MARGIN = 0.02
"""A variant must win by this much, so that noise does not choose."""
_ROUNDS = 7
_FLUSH_BYTES = 256 << 20

Step = TypeVar("Step", Launch, Library)
Timer = Callable[[Any, str, Any], float | None]
"""(built module, launcher, launch or library step) → milliseconds, or None where it cannot be timed."""


def variants(plan: Plan, launch: Launch) -> list[Launch]:
    """The launch itself and its neighbours."""
    found = [launch]
    if launch.mode == "pointwise":
        shapes = ((256, 1), (256, 2), (256, 4), (512, 2), (128, 4), (512, 4), (256, 8))
        found += [replace(launch, block=block, items=items) for block, items in shapes]
    elif launch.mode == "row":
        for group in (launch.group // 2, launch.group * 2, launch.group * 4):
            if group >= 32 and group <= 1024:
                found.append(replace(launch, group=group, block=max(group, 256 if group == 32 else group)))
    elif launch.mode == "relay":
        found += [replace(launch, items=max(1, launch.items // 2)), replace(launch, items=launch.items * 2)]
        found.append(replace(launch, mode="stages"))
    elif launch.mode == "scan":
        longest = max(32, launch.kernel.length // launch.vec)
        for block, items in ((128, 4), (256, 2), (512, 2), (512, 4), (1024, 2)):
            if block > longest:
                continue
            found.append(replace(launch, block=block, group=block, items=items))
    elif launch.mode == "scan_column" or is_windowed(plan.program.arena, launch.kernel):
        found += [replace(launch, block=block) for block in (64, 128, 512)]
    else:
        found += _column_variants(launch)
    arrays = max(1, kept_arrays(plan.program.arena, launch.kernel)) if launch.cached else 1
    fits = [v for v in found if not v.cached or v.per_thread * v.vec * arrays <= REGISTER_BUDGET]
    return list(dict.fromkeys([launch, *fits]))


def _column_variants(launch: Launch) -> list[Launch]:
    """Other numbers of threads a column and of columns a block."""
    found = []
    for group in (launch.group // 2, launch.group, launch.group * 2, launch.group * 4):
        for columns in (32, 64, 128):
            if 1 <= group <= 32 and 128 <= group * columns <= 1024:
                found.append(replace(launch, group=group, block=group * columns))
    return found


def variant_submission(plan: Plan, chosen: list[Launch]) -> tuple[Submission, dict[str, Launch]]:
    """One source with a launcher for each variant of `chosen`; the map gives each launcher's launch."""
    segments: list[Segment] = []
    launchers: dict[str, Launch] = {}
    for launch in chosen:
        for number, variant in enumerate(variants(plan, launch)):
            name = f"{launch.name}_v{number}"
            named = replace(variant, name=name)
            outs, ins = kernel_buffers(plan.program, named.kernel)
            segments.append(Segment(f"run_{name}", (named,), tuple(outs), tuple(ins), (), 0))
            launchers[f"run_{name}"] = variant
    files = {"model_new.py": "# launch variants to time\n", KERNELS_PATH: cuda_file(plan.program, segments)}
    return Submission(files=files), launchers


def tune(plan: Plan, compiler: Compiler, target: Target, timer: Timer, budget_s: float = 20.0) -> Plan:
    """The plan with the fastest launch parameters found within `budget_s` (seconds, the build not counted)."""
    ranked = sorted(plan.launches, key=lambda x: -traffic_bytes(plan.program, x.kernel))
    chosen = [x for x in ranked[:MAX_TUNED] if traffic_bytes(plan.program, x.kernel) >= MIN_BYTES]
    if not chosen:
        return plan
    submission, launchers = variant_submission(plan, chosen)
    best = fastest(submission, launchers, compiler, target, timer, budget_s)
    if not best:
        return plan
    notes = [
        f"{name}: {launch.block} threads, {_shape(launch)}, {taken * 1000:.1f} µs by its own events"
        for name, (taken, launch) in best.items()
    ]
    tuned = plan.with_launches({name: launch for name, (_, launch) in best.items()})
    return replace(tuned, notes=[*tuned.notes, *notes])


def fastest(
    submission: Submission,
    launchers: Mapping[str, Step],
    compiler: Compiler,
    target: Target,
    timer: Timer,
    budget_s: float,
) -> dict[str, tuple[float, Step]]:
    """The fastest variant of each step, by name, with its milliseconds; nothing where `submission` does not build.

    `launchers` gives the variant that each launcher of `submission` runs. The first of a step stands until another
    wins by MARGIN; those that `budget_s` (seconds, the build not counted) does not suffice for are left out.
    """
    result = compiler.build(submission, target)
    if result.status is not CompileStatus.OK or result.build_dir is None:
        return {}
    module = load_extension(Path(result.build_dir))
    deadline = time.monotonic() + budget_s
    best: dict[str, tuple[float, Step]] = {}
    for launcher, variant in launchers.items():
        if time.monotonic() > deadline:
            break
        taken = timer(module, launcher, variant)
        known = best.get(variant.name)
        if taken is not None and (known is None or taken < known[0] * (1 - MARGIN)):
            best[variant.name] = (taken, variant)
    return best


def _shape(launch: Launch) -> str:
    if launch.mode in ("pointwise", "scan"):
        return f"{launch.items} vectors of {launch.vec} a thread"
    if launch.mode == "relay":
        return f"reducing {launch.items} chunks ahead of writing"
    if launch.mode == "stages":
        return "in stages one after the other"
    return f"{launch.group} threads a row"


def load_extension(build_dir: Path) -> Any:
    """The built `cuda_extension`, as a module of its own."""
    spec = importlib.util.spec_from_file_location("cuda_extension_variants", build_dir / "cuda_extension.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class CudaTimer:
    """Times launches with CUDA events on random data, the L2 cache flushed before each."""

    def __init__(self, plan: Plan) -> None:
        import torch

        self._program = plan.program
        self._flush = torch.empty(_FLUSH_BYTES // 4, device="cuda")
        self._tensors: dict[str, torch.Tensor] = {}

    def __call__(self, module: Any, launcher: str, launch: Launch) -> float | None:
        import torch

        arguments = self._arguments(launch)
        if arguments is None:
            return None
        run = getattr(module, launcher)
        times = []
        for _ in range(_ROUNDS):
            self._flush.amax()
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            run(*arguments)
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end))
        return sorted(times[2:])[(_ROUNDS - 2) // 2]

    def _arguments(self, launch: Launch) -> list[Any] | None:
        """Tensors for a launch's pointers; None where they take more than half of the free memory."""
        import torch

        outs, ins = kernel_buffers(self._program, launch.kernel)
        wanted = [*outs, *ins]
        for name in [n for n in self._tensors if n not in wanted]:
            del self._tensors[name]
        missing = [self._program.buffers[n] for n in wanted if n not in self._tensors]
        if missing:
            torch.cuda.empty_cache()
            if sum(b.nbytes for b in missing) > torch.cuda.mem_get_info()[0] // 2:
                return None
        for buffer in missing:
            tensor = torch.zeros(buffer.shape, dtype=getattr(torch, buffer.dtype), device="cuda")
            self._tensors[buffer.name] = tensor.uniform_(0.5, 1.5) if tensor.is_floating_point() else tensor
        return [self._tensors[n] for n in wanted]
