"""A captured task becomes a plan of launches, and a plan becomes a submission."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from warpsmith.optimizer.capture import Captured
from warpsmith.optimizer.cuda_source import Segment, cuda_file, make_segment
from warpsmith.optimizer.fuse import Kernel, fuse
from warpsmith.optimizer.ir import Call, Program, tensor_refs
from warpsmith.optimizer.lower import lower
from warpsmith.optimizer.module_source import module_file
from warpsmith.optimizer.plan import Launch, default_launch
from warpsmith.optimizer.rewrite import rewrite
from warpsmith.optimizer.split import operators, split_long_rows
from warpsmith.types import Submission

KERNELS_PATH = "kernels/fused.cu"


@dataclass
class Plan:
    """What will run: launches and torch calls in order, with the state and constants of the module."""

    program: Program
    captured: Captured
    steps: list[Launch | Call]
    notes: list[str]

    @property
    def launches(self) -> list[Launch]:
        """Our kernels, in order."""
        return [s for s in self.steps if isinstance(s, Launch)]

    @property
    def calls(self) -> list[Call]:
        """The operators that stay torch's."""
        return [s for s in self.steps if isinstance(s, Call)]

    def with_launches(self, chosen: dict[str, Launch]) -> Plan:
        """The plan with some launches replaced, by kernel name."""
        steps = [chosen.get(s.name, s) if isinstance(s, Launch) else s for s in self.steps]
        return replace(self, steps=steps)


def make_plan(captured: Captured, *, conservative: bool = False) -> Plan:
    """Rewrite, lower, fuse and split; `conservative`: scalar loads and no algebra.

    The exported graph is changed in place: one call for one capture.
    """
    notes = [] if conservative else rewrite(captured.exported)
    program = lower(captured)
    steps: list[Launch | Call] = []
    for step in fuse(program):
        if isinstance(step, Call):
            steps.append(step)
            continue
        kernels = split_long_rows(program, step)
        notes.append(_fused_note(program, step, len(kernels)))
        for kernel in kernels:
            name = _kernel_name(program, kernel, len(steps))
            steps.append(default_launch(program, kernel, name, conservative))
    notes += program.notes
    targets = [s.target.removesuffix(".default") for s in steps if isinstance(s, Call)]
    if targets:
        notes.append(f"kept as torch calls: {', '.join(targets)}")
    return Plan(program, captured, steps, list(dict.fromkeys(notes)))


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
    """Runs of launches between torch calls, each one launcher."""
    out: list[Segment | Call] = []
    run: list[Launch] = []
    number = 0

    def close() -> None:
        nonlocal number
        if run:
            out.append(make_segment(plan.program, f"fused{number}", list(run), _read_outside(plan, run)))
            number += 1
            run.clear()

    for step in plan.steps:
        if isinstance(step, Launch):
            run.append(step)
        else:
            close()
            out.append(step)
    close()
    return out


def _read_outside(plan: Plan, run: list[Launch]) -> set[str]:
    """Buffers that anything but these launches reads."""
    found = {r.buf for r in tensor_refs(plan.program.result)}
    for step in plan.steps:
        if isinstance(step, Call):
            found |= {r.buf for r in tensor_refs((step.args, [v for _, v in step.kwargs]))}
        elif step not in run:
            found |= {n.buf for i in step.kernel.items for n in plan.program.arena.loads(i.expr)}
    return found


def make_submission(plan: Plan) -> Submission | None:
    """The submission, or None where no kernel of ours is in the plan."""
    if not plan.launches:
        return None
    steps = segments_of(plan)
    segments = [s for s in steps if isinstance(s, Segment)]
    module = module_file(plan.program, steps, plan.captured.state, plan.captured.constants, plan.notes)
    return Submission(files={"model_new.py": module, KERNELS_PATH: cuda_file(plan.program, segments)})
