"""The relay kernel: device functions for its stages, and the turns that its blocks take."""

from __future__ import annotations

from warpsmith.optimizer.cuda_rows import row_function, row_kernel
from warpsmith.optimizer.cuda_text import Text, kernel_buffers, pointer_parameters
from warpsmith.optimizer.ir import Program
from warpsmith.optimizer.plan import Launch


def stage_names(launch: Launch) -> list[str]:
    """Names of a relay's stages."""
    return [f"{launch.name}_{what}" for what in ("reduce", "combine", "write")]


def turns_buffer(launch: Launch) -> str:
    """The counters: chunks done and whether it is finished for each row, then the turns drawn."""
    return launch.kernel.items[-1].buf


def staged_kernels(program: Program, launch: Launch) -> str:
    """The same stages as kernels of their own, one after the other."""
    texts = []
    for name, stage in zip(stage_names(launch), launch.stages, strict=True):
        texts.append(row_kernel(program, Launch(name, *_fields(stage))))
    return "\n".join(texts)


def _fields(stage: Launch) -> tuple[object, ...]:
    return (
        stage.kernel,
        stage.mode,
        stage.block,
        stage.items,
        stage.group,
        stage.vec,
        stage.cached,
        stage.index,
    )


def relay_kernel(program: Program, launch: Launch) -> str:
    """The kernel's text."""
    partial, final, _ = launch.stages
    rows, chunks = final.kernel.rows, partial.kernel.rows
    per_row = chunks // rows
    lag = per_row + launch.items
    fresh = frozenset(b for stage in (partial, final) for b in kernel_buffers(program, stage.kernel)[0])
    names = stage_names(launch)
    texts = [
        row_function(program, stage, name, fresh, keep=stage is partial)
        for name, stage in zip(names, launch.stages, strict=True)
    ]
    calls = []
    for name, stage, place in zip(names, launch.stages, ("chunk", "row", "chunk"), strict=True):
        outs, ins = kernel_buffers(program, stage.kernel)
        calls.append(f"{name}({', '.join([place, *outs, *ins])});")
    turns = turns_buffer(launch)
    outs, ins = pointer_parameters(program, launch.kernel, fresh | {turns})
    t = Text()
    t.line(f"__global__ void __launch_bounds__({launch.block})")
    with t.block(f"{launch.name}({', '.join(outs + ins)})"):
        t.line("// turns are drawn as blocks start: what a block waits for was begun before it")
        t.line("__shared__ int turn, last;")
        t.line(f"if (threadIdx.x == 0) turn = atomicAdd({turns} + {2 * rows}, 1);")
        t.line("__syncthreads();")
        with t.block("if (turn % 2 == 0)"):
            t.line("const int chunk = turn / 2;")
            t.line(f"if (chunk >= {chunks}) return;")
            t.line(f"const int row = chunk / {per_row};")
            t.line(calls[0])
            with t.block("if (threadIdx.x == 0)"):
                t.line("// the thread that stored the chunk's results says so")
                t.line("__threadfence();")
                t.line(f"last = atomicAdd({turns} + row, 1) == {per_row - 1};")
            t.line("__syncthreads();")
            t.line("if (!last) return;")
            t.line("__threadfence();")
            t.line("__syncthreads();")
            t.line(calls[1])
            with t.block("if (threadIdx.x == 0)"):
                t.line("__threadfence();")
                t.line(f"atomicExch({turns} + {rows} + row, 1);")
        with t.block("else"):
            t.line(f"const int chunk = turn / 2 - {lag};")
            t.line("if (chunk < 0) return;")
            t.line(f"const int row = chunk / {per_row};")
            with t.block("if (threadIdx.x == 0)"):
                t.line(f"while (atomicAdd({turns} + {rows} + row, 0) == 0) __nanosleep(100);")
                t.line("__threadfence();")
            t.line("__syncthreads();")
            t.line(calls[2])
    return "\n".join([*texts, str(t)])


def relay_launch(program: Program, launch: Launch, arguments: str) -> list[str]:
    """The host's lines for a relay, or for its stages as kernels of their own."""
    if launch.mode == "stages":
        lines = []
        for name, stage in zip(stage_names(launch), launch.stages, strict=True):
            outs, ins = kernel_buffers(program, stage.kernel)
            given = ", ".join([*outs, *ins])
            lines.append(f"{name}<<<{stage.grid}, {stage.block}, 0, stream>>>({given});")
        return lines
    turns = turns_buffer(launch)
    return [
        f"cudaMemsetAsync({turns}, 0, {program.buffers[turns].nbytes}, stream);",
        f"{launch.name}<<<{launch.grid}, {launch.block}, 0, stream>>>({arguments});",
    ]
