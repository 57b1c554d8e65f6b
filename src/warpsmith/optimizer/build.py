"""A captured task becomes a plan of launches, and a plan becomes a submission."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from warpsmith.optimizer.capture import Captured
from warpsmith.optimizer.cuda_source import Segment, cuda_file, make_segment
from warpsmith.optimizer.fold import fold_affine, weights_alone
from warpsmith.optimizer.fuse import Kernel, fuse
from warpsmith.optimizer.ir import Call, Program, tensor_refs
from warpsmith.optimizer.library import Library, Math
from warpsmith.optimizer.library_plan import library_name, library_notes, with_epilogues, with_math
from warpsmith.optimizer.lower import lower
from warpsmith.optimizer.module_source import module_file
from warpsmith.optimizer.plan import Launch, default_launch
from warpsmith.optimizer.relay import relayed
from warpsmith.optimizer.rewrite import rewrite
from warpsmith.optimizer.split import operators, split_long_rows
from warpsmith.optimizer.split_products import split_products
from warpsmith.types import Submission

KERNELS_PATH = "kernels/fused.cu"


@dataclass
class Plan:
    """What will run: launches and torch calls in order, with the state and constants of the module."""

    program: Program
    captured: Captured
    steps: list[Launch | Call]
    notes: list[str]
    ahead: list[Launch | Library] = field(default_factory=list)
    """What reads the weights alone and runs in `prepare()`; counted among neither launches nor products."""

    @property
    def launches(self) -> list[Launch]:
        """Our kernels, in order."""
        return [s for s in self.steps if isinstance(s, Launch)]

    @property
    def calls(self) -> list[Call]:
        """The operators that stay torch's."""
        return [s for s in self.steps if isinstance(s, Call) and not isinstance(s, Library)]

    @property
    def left(self) -> tuple[str, ...]:
        """The names of those operators, each once, in order of the alphabet."""
        return tuple(sorted({call.target.removesuffix(".default") for call in self.calls}))

    @property
    def products(self) -> list[Library]:
        """Matrix products and convolutions that a library runs for us."""
        return [s for s in self.steps if isinstance(s, Library)]

    def with_launches(self, chosen: Mapping[str, Launch | Library]) -> Plan:
        """The plan with some launches or library steps replaced, by name."""
        steps = [chosen.get(s.name, s) if isinstance(s, Launch | Library) else s for s in self.steps]
        return replace(self, steps=steps)


def make_plan(
    captured: Captured, *, conservative: bool = False, math: Math = Math.DEFAULT, fold: bool = False
) -> Plan:
    """Rewrite, lower, fuse and split; `conservative`: scalar loads, no algebra, products left to torch.

    `fold`: what depends on the weights alone is done ahead, in the module's `prepare()`.

    The exported graph is changed in place: one call for one capture.
    """
    notes = [] if conservative else rewrite(captured.exported)
    program = lower(captured, libraries=not conservative)
    with_epilogues(program)
    if fold:
        fold_affine(program)
    if math is Math.SPLIT:
        split_products(program)
    steps: list[Launch | Call] = []
    for step in fuse(program):
        if isinstance(step, Library):
            steps.append(with_math(replace(step, name=library_name(step, len(steps))), math))
        elif isinstance(step, Call):
            steps.append(step)
        else:
            kernels = split_long_rows(program, step)
            names = [_kernel_name(program, k, len(steps) + i) for i, k in enumerate(kernels)]
            made = [default_launch(program, k, n, conservative) for k, n in zip(kernels, names, strict=True)]
            made = made if conservative else relayed(program, kernels, made)
            notes.append(_fused_note(program, step, len(made)))
            steps += made
    plan = Plan(program, captured, steps, notes)
    notes += library_notes(plan.products, own=len(plan.launches)) + program.notes
    targets = [s.target.removesuffix(".default") for s in plan.calls]
    if targets:
        notes.append(f"kept as torch calls: {', '.join(targets)}")
    if fold:
        plan.ahead, plan.steps = weights_alone(program, steps)
        if plan.ahead:
            notes.append(f"{len(plan.ahead)} of these run in prepare(), on the weights alone")
    return replace(plan, notes=list(dict.fromkeys(notes)))


def _fused_note(program: Program, kernel: Kernel, count: int) -> str:
    """What one fused loop nest computes, and in how many kernels."""
    names = [op for _, op in operators(program.arena, kernel)]
    into = f"{count} kernel{'s' * (count != 1)}"
    if count > 1:
        into += f" (rows of {kernel.length} reduced in two stages over many blocks)"
    if len(names) > 1:
        return f"fused {' + '.join(names)} into {into} ({len(names)} operators)"
    return f"{names[0] if names else 'copy'} in {into}"


def _kernel_name(program: Program, kernel: Kernel, number: int) -> str:
    names = [re.sub(r"\W", "_", op) for _, op in operators(program.arena, kernel)]
    return "_".join([*(n.strip("_") for n in names[:4]), f"kernel{number}"])


def segments_of(plan: Plan) -> list[Segment | Call]:
    """Runs of launches and library steps between torch calls, each one launcher."""
    out: list[Segment | Call] = []
    run: list[Launch | Library] = []
    number = 0

    def close() -> None:
        nonlocal number
        if run:
            out.append(make_segment(plan.program, f"fused{number}", list(run), _read_outside(plan, run)))
            number += 1
            run.clear()

    for step in plan.steps:
        if isinstance(step, Launch | Library):
            run.append(step)
        else:
            close()
            out.append(step)
    close()
    return out


def _read_outside(plan: Plan, run: list[Launch | Library]) -> set[str]:
    """Buffers that anything but these steps reads."""
    found = {r.buf for r in tensor_refs(plan.program.result)}
    for step in (*plan.ahead, *plan.steps):
        if step in run:
            continue
        if isinstance(step, Call):
            found |= {r.buf for r in tensor_refs((step.args, [v for _, v in step.kwargs]))}
        else:
            found |= {n.buf for i in step.kernel.items for n in plan.program.arena.loads(i.expr)}
    return found


def _prepared(plan: Plan) -> Segment | None:
    """The launcher of `prepare()`; its results become attributes of the module."""
    if not plan.ahead:
        return None
    segment = make_segment(plan.program, "prepare", list(plan.ahead), _read_outside(plan, plan.ahead))
    for name in segment.outs:
        buffer = plan.program.buffers[name]
        plan.program.buffers[name] = replace(buffer, role="state", code=f"self.{name}")
    return segment


def make_submission(plan: Plan) -> Submission | None:
    """The submission, or None where neither a kernel of ours nor a library step is in the plan."""
    if not plan.launches and not plan.products and not plan.ahead:
        return None
    prepared = _prepared(plan)
    steps = segments_of(plan)
    segments = [s for s in (prepared, *steps) if isinstance(s, Segment)]
    module = module_file(
        plan.program, steps, plan.captured.state, plan.captured.constants, plan.notes, prepared
    )
    return Submission(files={"model_new.py": module, KERNELS_PATH: cuda_file(plan.program, segments)})
