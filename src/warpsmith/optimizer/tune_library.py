"""Which of a library's algorithms a step uses, chosen by measurement: the heuristic's first few, timed one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from warpsmith.optimizer.build import KERNELS_PATH, Plan
from warpsmith.optimizer.cuda_source import Segment, cuda_file
from warpsmith.optimizer.library import CHOICES, Conv, Library, step_buffers
from warpsmith.optimizer.tune import CudaTimer, Timer, fastest
from warpsmith.types import Submission

if TYPE_CHECKING:
    from warpsmith.types import Target
    from warpsmith.types.protocols import Compiler

MAX_TUNED = 6
"""Different products tuned for one task: those with the most arithmetic."""
MIN_FLOPS = 200_000_000
"""Below this a product's time is its launch."""


def library_variants(plan: Plan) -> tuple[Submission | None, dict[str, Library]]:
    """One source with a launcher for each algorithm of the large products; the map gives each launcher's step.

    Products that differ in nothing but their buffers are tuned once. None where no product is large.
    """
    ranked = sorted(plan.products, key=lambda s: -s.spec.flops)
    first: dict[object, Library] = {}
    for step in ranked:
        ours = isinstance(step.spec, Conv) and step.spec.depthwise
        if step.spec.flops >= MIN_FLOPS and not ours:
            first.setdefault(step.spec, step)
    launchers: dict[str, Library] = {}
    segments = []
    for step in list(first.values())[:MAX_TUNED]:
        for choice in range(CHOICES):
            name = f"{step.name}_v{choice}"
            variant = replace(step, name=name, spec=replace(step.spec, choice=choice))
            outs, ins = step_buffers(plan.program, variant)
            segments.append(Segment(f"run_{name}", (variant,), tuple(outs), tuple(ins), (), 0))
            launchers[f"run_{name}"] = replace(variant, name=step.name)
    if not segments:
        return None, {}
    files = {"model_new.py": "# algorithms to time\n", KERNELS_PATH: cuda_file(plan.program, segments)}
    return Submission(files=files), launchers


def tune_libraries(
    plan: Plan, compiler: Compiler, target: Target, timer: Timer, budget_s: float = 20.0
) -> Plan:
    """The plan with the fastest algorithms found within `budget_s` (seconds, the build not counted)."""
    submission, launchers = library_variants(plan)
    if submission is None:
        return plan
    best = fastest(submission, launchers, compiler, target, timer, budget_s)
    if not best:
        return plan
    by_spec = {replace(step.spec, choice=0): step.spec.choice for _, step in best.values()}
    chosen = {
        s.name: replace(s, spec=replace(s.spec, choice=by_spec.get(s.spec, s.spec.choice)))
        for s in plan.products
    }
    notes = [
        f"{name}: algorithm {step.spec.choice} of the library's heuristic, {taken * 1000:.1f} µs by its own events"
        for name, (taken, step) in best.items()
    ]
    tuned = plan.with_launches(chosen)
    return replace(tuned, notes=[*tuned.notes, *notes])


class LibraryTimer(CudaTimer):
    """Times library steps; an algorithm that the library refuses to run has no time."""

    def __call__(self, module: Any, launcher: str, launch: Any) -> float | None:
        try:
            return super().__call__(module, launcher, launch)
        except RuntimeError:
            return None

    def _arguments(self, launch: Any) -> list[Any] | None:
        import torch

        outs, ins = step_buffers(self._program, launch)
        buffers = [self._program.buffers[name] for name in (*outs, *ins)]
        if {b.name for b in buffers} != set(self._tensors):
            self._tensors = {}
            torch.cuda.empty_cache()
            if sum(b.nbytes for b in buffers) > torch.cuda.mem_get_info()[0] // 2:
                return None
            self._tensors = {
                b.name: torch.rand(b.shape, device="cuda").to(getattr(torch, b.dtype)) for b in buffers
            }
        return [self._tensors[b.name] for b in buffers]
