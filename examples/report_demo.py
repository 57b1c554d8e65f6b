"""A report of made-up data, to see what one looks like: `python examples/report_demo.py FOLDER`.

Two policies over 40 tasks with two samples each, judged by a script that invents times. Nothing is measured here.
"""

import random
import subprocess
import sys
from pathlib import Path

from warpsmith.rollout import run_episode
from warpsmith.rollout.scripted import ScriptedCompiler, ScriptedJudge, ScriptedPolicy, scripted_verdict
from warpsmith.store import Manifest, RunStore
from warpsmith.types import (
    BaselineKind,
    ByteFloor,
    Device,
    ErrorStats,
    Machine,
    MatchedSpeedup,
    MenuTime,
    PaperSpeedup,
    Speedup,
    Status,
    Submission,
    Target,
    Task,
    TaskRef,
    TaskSource,
    TimeStats,
    Timings,
    Verdict,
)
from warpsmith.types.protocols import JudgeSettings, PolicyStep

KERNEL = """\
extern "C" __global__ void scale(const float* x, float* y, int n) {
    // one element a thread
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
"""
FAILURES = (Status.WRONG, Status.CRASHED, Status.COMPILE_FAILED, Status.CHEATED)
WHY = {
    Status.WRONG: "out[0][3, 17] is 0.5 and should be 0.25, in call 2",
    Status.CHEATED: "torch.matmul ran in forward",
    Status.CRASHED: "the candidate ended with signal 11",
    Status.COMPILE_FAILED: "kernels/scale.cu:3: expected ';'",
}


def times(source: random.Random, middle: float) -> TimeStats:
    """Thirty brackets that scatter by 1 %."""
    samples = sorted(middle * source.gauss(1, 0.01) for _ in range(30))
    return TimeStats(
        calls=30, median_ms=samples[15], p25_ms=samples[7], p75_ms=samples[22], min_ms=samples[0],
        raw_median_ms=samples[15] + 0.01, null_ms=0.01, samples_ms=tuple(samples),
    )  # fmt: skip


def answer(task: Task, given: Submission, settings: JudgeSettings, calls: int) -> Verdict:
    """A verdict that the hash of the question decides."""
    skill = 1.6 if "strong" in given.files["model_new.py"] else 1.1
    source = random.Random(f"{task.name} {given.submission_hash}")
    machine = Machine(device=Device.CUDA, gpu="Made-up GPU", driver="1.0", torch="0.0", isolation="none")
    if source.random() < 0.25 / skill:
        status = source.choice(FAILURES)
        return scripted_verdict(task, given, settings, status, detail=WHY[status], machine=machine)
    mine = 10 ** source.uniform(-1, 1)
    eager, compiled, tf32 = (
        times(source, mine * skill * source.lognormvariate(0, s)) for s in (0.5, 0.3, 0.25)
    )
    candidate = times(source, mine)
    ratios = [s.median_ms / candidate.median_ms for s in (eager, compiled, tf32)]
    best = min(ratios[0], ratios[2])
    matched = MatchedSpeedup(
        eager=ratios[0], compile=ratios[2], best=best, eager_baseline="default eager",
        compile_baseline="tf32 compile", best_baseline="default eager" if best == ratios[0] else "tf32 compile",
    )  # fmt: skip
    floor = source.uniform(0.2, 0.95)
    return scripted_verdict(
        task, given, settings, machine=machine,
        error=ErrorStats(rel=10 ** source.uniform(-7, -3), max_abs=1e-4, where="out[0][1, 2]"),
        timings=Timings(
            candidate=candidate, eager=eager, compile=compiled,
            menu=(MenuTime(mode="tf32", kind=BaselineKind.COMPILE, stats=tf32),),
        ),
        speedup=Speedup(paper=PaperSpeedup(eager=ratios[0], compile=ratios[1]), matched=matched),
        floor=ByteFloor(read_bytes=1 << 20, written_bytes=1 << 20, bandwidth_gb_s=4800,
                        floor_ms=floor * candidate.median_ms, share=floor),
        seconds={"compile": 1.5, "correctness": 2.0, "timing": 3.0},
    )  # fmt: skip


def fill(folder: Path, name: str, tasks: list[Task]) -> None:
    """A run that lacks its last two tasks."""
    settings = JudgeSettings(device=Device.CUDA)
    manifest = Manifest(
        command="demo", task_hash="made up", task_name="made-up tasks", policy=name, device=Device.CUDA,
        settings=settings.model_dump(mode="json", exclude={"device"}) | {"samples": 2},
        tasks=tuple(TaskRef.of(task) for task in tasks),
    )  # fmt: skip
    with RunStore(folder) as store:
        store.open(manifest)
        for task in tasks[:-2]:
            for sample in range(2):
                steps = [
                    PolicyStep(
                        note=f"attempt {i + 1}: another tile",
                        submission=given(name, task, sample, i),
                        answer=given(name, task, sample, i),
                    )
                    for i in range(1 + len(task.name) % 3)
                ]
                run_episode(
                    task, ScriptedPolicy(steps, name=name), judge=ScriptedJudge(answer), compiler=ScriptedCompiler(),
                    target=Target(device=Device.CUDA, arch="sm_90"), settings=settings, store=store, sample=sample,
                )  # fmt: skip


def given(name: str, task: Task, sample: int, attempt: int) -> Submission:
    """What the policy wrote."""
    text = f"# {name}, {task.name}, sample {sample}, attempt {attempt}\nclass ModelNew: ...\n"
    return Submission(files={"model_new.py": text, "kernels/scale.cu": KERNEL})


def main(out: Path) -> None:
    """Two runs and their report."""
    names = ("Matmul", "Softmax", "LayerNorm", "Conv2d_ReLU", "GRU", "MaxPool", "Gemm_GELU_Sum", "Attention")
    tasks = [
        Task(
            name=f"{i + 1}_{names[i % len(names)]}", code=f"class Model: ...  # {i}\n", level=1 + i % 3,
            problem_id=i + 1, source=TaskSource.KERNELBENCH,
        )
        for i in range(40)
    ]  # fmt: skip
    for name in ("strong", "weak"):
        fill(out / "runs" / name, name, tasks)
    command = ["report", str(out / "runs"), "--against", str(out / "runs/weak"), "--out", str(out)]
    subprocess.run([sys.executable, "-m", "warpsmith", *command, "--title", "Made-up data"], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "report-demo"))
