"""The simulator beside a GPU: the same kernels on the same inputs, compared with each other and with right values.

    python benchmarks/sim_vs_gpu.py [--out FILE] [--arch sm_90] [--only NAME…]

Runs the corpus of `tests/sim/corpus` built for the GPU of this machine and for `sim`, each kernel in a process of its
own. Integers must be equal; floats may differ by the case's tolerance (`gpu_sim`: the difference in multiples of it).
What does not build, crashes or hangs is a row with the reason.
"""

import argparse
import importlib.util
import json
import multiprocessing
import sys
import time
from pathlib import Path

import torch
from common import RESULTS, save

from warpsmith.compile.local import LocalCompiler
from warpsmith.errors import WarpsmithError
from warpsmith.gpu.devices import list_gpus
from warpsmith.types import CompileResult, CompileStatus, Device, Submission, Target

sys.path.append(str(Path(__file__).parent.parent))
from tests.sim.corpus.cases import (
    Case,
    Draw,
    all_cases,
    error_of,
    names_of_files,
    right_values,
    sources,
)

TIMEOUT_S = 120


def built(compiler: LocalCompiler, file: str, target: Target) -> CompileResult | str:
    """The build of one file of the corpus, or why there is none."""
    try:
        result = compiler.build(Submission(files=sources(file)), target)
    except WarpsmithError as error:
        return f"{error} ({error.hint})" if error.hint else str(error)
    return result if result.status is CompileStatus.OK else f"{result.status}: {result.log[:500]}"


def load(build_dir: str, name: str) -> object:
    """The built module under a name of its own."""
    spec = importlib.util.spec_from_file_location(name, Path(build_dir) / "cuda_extension.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def outputs(case: Case, build_dir: str, device: str) -> list[torch.Tensor]:
    """What the kernel writes, on the CPU."""
    arguments = case.arguments(Draw(case.name))
    arguments = [a.to(device) if isinstance(a, torch.Tensor) else a for a in arguments]
    getattr(load(build_dir, f"{case.file}_{device}"), case.name)(*arguments)
    if device == "cuda":
        torch.cuda.synchronize()
    return [arguments[i].cpu() for i in case.writes]


def child(case: Case, build_dir: str, device: str, pipe: object) -> None:
    """In a process of its own: the outputs as bytes, or the error."""
    try:
        found = outputs(case, build_dir, device)
        pipe.send(
            [
                (t.view(torch.uint8).numpy().tobytes() if t.dim() else b"", str(t.dtype), t.shape)
                for t in found
            ]
        )
    except Exception as error:  # noqa: BLE001 - whatever went wrong is the row's answer
        pipe.send(f"{type(error).__name__}: {error}")


def run(case: Case, build: CompileResult | str, device: str) -> list[torch.Tensor] | str:
    """The outputs, or what went wrong."""
    if isinstance(build, str):
        return build
    # forked from a process that has torch but no CUDA context: a start costs a quarter of a second
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=child, args=(case, str(build.build_dir), device, theirs))
    process.start()
    theirs.close()
    try:
        answer = ours.recv() if ours.poll(TIMEOUT_S) else f"no answer within {TIMEOUT_S} s"
    except EOFError:
        answer = "the process ended without an answer"
    process.join(5)
    if process.is_alive():
        process.kill()
        process.join()
    if isinstance(answer, str):
        return f"{answer} (exit status {process.exitcode})"
    return [tensor(*parts) for parts in answer]


def tensor(data: bytes, dtype: str, shape: torch.Size) -> torch.Tensor:
    """The tensor that was sent."""
    return torch.frombuffer(bytearray(data), dtype=getattr(torch, dtype.split(".")[-1])).reshape(shape)


def compare(case: Case, gpu: list[torch.Tensor] | str, sim: list[torch.Tensor] | str) -> dict:
    """One row of the result."""
    row: dict = {"kernel": case.name, "file": case.file, "tolerance": case.tolerance}
    right = right_values(case, case.arguments(Draw(case.name)))

    def worst(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> float:
        return max(error_of(f, w, case.tolerance) for f, w in zip(found, wanted, strict=True))

    if isinstance(gpu, str) or isinstance(sim, str):
        answers = {"gpu": gpu, "sim": sim}
        row["failed"] = {name: found for name, found in answers.items() if isinstance(found, str)}
        row |= {
            f"{name}_right": worst(found, right)
            for name, found in answers.items()
            if not isinstance(found, str)
        }
        return {**row, "agree": False}
    row |= {
        "bitwise": all(
            torch.equal(g.view(torch.uint8), s.view(torch.uint8)) for g, s in zip(gpu, sim, strict=True)
        ),
        "gpu_sim": worst(gpu, sim),
        "gpu_right": worst(gpu, right),
        "sim_right": worst(sim, right),
    }
    allowed = 1.0 if any(t.dtype.is_floating_point for t in gpu) else 0.0
    return {**row, "agree": row["gpu_sim"] <= allowed}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS / "sim_vs_gpu.json")
    parser.add_argument("--only", nargs="*", default=[], help="names of kernels")
    parser.add_argument("--arch", help="the GPU's architecture such as sm_90, where NVML is not at hand")
    args = parser.parse_args()
    gpus = list_gpus()
    arch = args.arch or (gpus[0].arch if gpus else None)
    compiler = LocalCompiler()
    started = time.monotonic()
    targets = {"sim": Target(device=Device.SIM)}
    if arch:
        targets["gpu"] = Target(device=Device.CUDA, arch=arch)
    rows = []
    for file in names_of_files():
        cases = [c for c in all_cases() if c.file == file and (not args.only or c.name in args.only)]
        if not cases:
            continue
        builds = {name: built(compiler, file, target) for name, target in targets.items()}
        for case in cases:
            sim = run(case, builds["sim"], "cpu")
            gpu = run(case, builds["gpu"], "cuda") if arch else "this machine has no GPU"
            rows.append(compare(case, gpu, sim))
            print(json.dumps(rows[-1]), flush=True)
    agree = sum(row["agree"] for row in rows)
    bitwise = sum(row.get("bitwise", False) for row in rows)
    summary = {
        "kernels": len(rows),
        "agree": agree,
        "bitwise": bitwise,
        "seconds": time.monotonic() - started,
    }
    save(args.out, summary=summary, rows=rows)
    print(json.dumps(summary))
    return 0 if agree == len(rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
