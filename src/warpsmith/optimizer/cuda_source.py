"""The `.cu` file: every kernel of a plan, and one launcher for each run of kernels between torch calls."""

from __future__ import annotations

from dataclasses import dataclass

from warpsmith.optimizer.cuda_columns import columns_kernel
from warpsmith.optimizer.cuda_expr import helpers_in
from warpsmith.optimizer.cuda_library import (
    describe_library,
    library_call,
    library_function,
    library_headers,
    library_includes,
    library_support,
)
from warpsmith.optimizer.cuda_pointwise import pointwise_kernel
from warpsmith.optimizer.cuda_relay import relay_kernel, relay_launch, staged_kernels
from warpsmith.optimizer.cuda_rows import row_kernel
from warpsmith.optimizer.cuda_scan import scan_kernel
from warpsmith.optimizer.cuda_text import (
    BFLOAT16_IN,
    BFLOAT16_OUT,
    CONVERT,
    HALF_IN,
    HALF_OUT,
    PREAMBLE,
    REDUCTIONS,
    VECTORS,
    Text,
    kernel_buffers,
)
from warpsmith.optimizer.ir import C_TYPES, Program
from warpsmith.optimizer.library import Library, step_buffers
from warpsmith.optimizer.plan import Launch
from warpsmith.optimizer.split import operators

EMITTERS = {
    "pointwise": pointwise_kernel,
    "row": row_kernel,
    "column": row_kernel,
    "columns": columns_kernel,
    "relay": relay_kernel,
    "stages": staged_kernels,
    "scan": scan_kernel,
    "scan_column": scan_kernel,
}
MODES = {
    "pointwise": "pointwise",
    "row": "reduction along rows",
    "column": "reduction across rows",
    "columns": "reduction across rows",
    "relay": "long rows in one kernel, read again from the L2 cache",
    "stages": "long rows in three kernels",
    "scan": "scan along rows",
    "scan_column": "scan across rows",
}
SCRATCH_ALIGN = 64
"""Temporaries of a launcher start at multiples of this many floats."""


@dataclass(frozen=True)
class Segment:
    """Kernels launched by one call from Python.

    `outs`, `ins`: buffers passed as pointers; `scratch`: buffers that live in one allocation, by float offset;
    `scratch_floats`: its size.
    """

    name: str
    launches: tuple[Launch | Library, ...]
    outs: tuple[str, ...]
    ins: tuple[str, ...]
    scratch: tuple[tuple[str, int], ...]
    scratch_floats: int


def make_segment(
    program: Program, name: str, launches: list[Launch | Library], read_outside: set[str]
) -> Segment:
    """Sort the kernels' buffers into results, inputs and scratch."""
    made: list[str] = []
    read: list[str] = []
    for launch in launches:
        if isinstance(launch, Library):
            outs, ins = step_buffers(program, launch)
        else:
            outs, ins = kernel_buffers(program, launch.kernel)
        made += [b for b in outs if b not in made]
        read += [b for b in ins if b not in read]
    outs = [b for b in made if b in read_outside]
    scratch: list[tuple[str, int]] = []
    at = 0
    for buf in made:
        if buf not in read_outside:
            scratch.append((buf, at))
            floats = -(-program.buffers[buf].nbytes // 4)
            at += -(-floats // SCRATCH_ALIGN) * SCRATCH_ALIGN
    ins = [b for b in read if b not in made]
    return Segment(name, tuple(launches), tuple(outs), tuple(ins), tuple(scratch), at)


def describe(program: Program, launch: Launch | Library) -> str:
    """One line: what a kernel computes, from which operators."""
    if isinstance(launch, Library):
        return describe_library(launch)
    names = [op for _, op in operators(program.arena, launch.kernel)]
    kernel = launch.kernel
    what = MODES[launch.mode]
    rows = launch.stages[1].kernel.rows if launch.stages else kernel.rows
    length = kernel.numel // rows if launch.stages else kernel.length
    extent = f"{kernel.numel} elements" if launch.mode == "pointwise" else f"{rows} rows of {length}"
    return f"{', '.join(names) or 'copy'}: {what}, {extent}"


def cuda_file(program: Program, segments: list[Segment]) -> str:
    """The text of the `.cu` file."""
    kernels = []
    libraries = [x for s in segments for x in s.launches if isinstance(x, Library)]
    for segment in segments:
        for launch in segment.launches:
            if isinstance(launch, Library):
                kernels.append(library_function(launch))
                continue
            text = EMITTERS[launch.mode](program, launch)
            kernels.append(f"// {describe(program, launch)}\n{text}")
    body = "\n".join(kernels)
    own = [x for s in segments for x in s.launches if not isinstance(x, Library)]
    rows = any(launch.mode != "pointwise" for launch in own)
    dtypes = {b.dtype for b in program.buffers.values()}
    includes = "#include <cuda_fp16.h>\n" if "float16" in dtypes else ""
    includes += "#include <cuda_bf16.h>\n" if "bfloat16" in dtypes else ""
    halves = [(HALF_IN, HALF_OUT)] if "float16" in dtypes else []
    halves += [(BFLOAT16_IN, BFLOAT16_OUT)] if "bfloat16" in dtypes else []
    includes = library_includes(libraries) + includes + library_headers(libraries)
    library = CONVERT.format(ins="".join(i for i, _ in halves), outs="".join(o for _, o in halves)) + VECTORS
    if rows:
        library += REDUCTIONS
    library += library_support(libraries)
    helpers = "".join(helpers_in(library + body))
    head = "".join(f"// - {describe(program, x)}\n" for s in segments for x in s.launches)
    return (
        f"// Generated by Warpsmith. Kernels and the operators that each one fuses:\n{head}\n"
        + PREAMBLE.format(includes=includes)
        + helpers
        + ("\n" if helpers else "")
        + library
        + "\n"
        + body
        + "\n}  // namespace\n\n"
        + "\n".join(launcher(program, s) for s in segments)
    )


def launcher(program: Program, segment: Segment) -> str:
    """The `extern "C"` function that Python calls."""
    outs = [f"{C_TYPES[program.buffers[b].dtype]}* {b}" for b in segment.outs]
    scratch = ["float* scratch"] if segment.scratch else []
    ins = [f"const {C_TYPES[program.buffers[b].dtype]}* {b}" for b in segment.ins]
    parameters = ", ".join([*outs, *scratch, *ins, "cudaStream_t stream"])
    t = Text()
    with t.block(f'extern "C" void {segment.name}_launcher({parameters})'):
        for buf, offset in segment.scratch:
            ctype = C_TYPES[program.buffers[buf].dtype]
            place = f"scratch + {offset}" if offset else "scratch"
            t.line(
                f"{ctype}* {buf} = "
                + (f"{place};" if ctype == "float" else f"reinterpret_cast<{ctype}*>({place});")
            )
        for launch in segment.launches:
            if isinstance(launch, Library):
                library_call(t, launch)
                continue
            made, read = kernel_buffers(program, launch.kernel)
            if launch.stages:
                for line in relay_launch(program, launch, ", ".join([*made, *read])):
                    t.line(line)
                continue
            t.line(
                f"{launch.name}<<<{launch.grid}, {launch.block}, 0, stream>>>({', '.join([*made, *read])});"
            )
    return str(t)
