"""PyTorch's own modes over a set of tasks: what one flag is worth.

    python benchmarks/baselines.py --kernelbench FILE --rows 1/1,1/2,… [--budget-s N] [--rows-out FILE] [--out FILE]

A task's own model is judged as its submission with every baseline asked for: default, strict, TF32, bf16 and fp16, in
eager and under torch.compile, each timed in a process of its own. The submission being the default mode itself, its
own speed-ups say how far the judge agrees with itself. Rows are appended to --rows-out as they come, and a run that
was stopped goes on with the same command. --out holds all rows and, in the columns of the published table, what
switching TF32 on and compiling is worth against PyTorch's defaults.
"""

import argparse
import json
import math
import time
from pathlib import Path

from common import RESULTS, save

from warpsmith import tasks
from warpsmith.cli import wiring
from warpsmith.types import Device, Status, Submission, Task, Verdict
from warpsmith.types.protocols import JudgeSettings, Menu

MARGIN = 1.0
"""Faster, in the published table, means merely faster."""


def own_model(task: Task) -> Submission:
    """The task's model under the name of a submission's."""
    return Submission(files={"model_new.py": f"{task.code}\n\nModelNew = Model\n"})


def row_of(spec: str, task: Task, verdict: Verdict, seconds: float) -> dict:
    """What is kept of a task."""
    row = {"task": spec, "name": task.name, "task_hash": task.task_hash, "revision": task.revision}
    row |= {"status": verdict.status.value, "detail": verdict.detail, "seconds": round(seconds, 1)}
    if verdict.timings is not None:
        row["candidate_ms"] = verdict.timings.candidate.median_ms
        row["baselines_ms"] = {
            f"{mode} {kind.value}": stats.median_ms for mode, kind, stats in verdict.timings.baselines()
        }
        row["problems"] = {f"{m.mode} {m.kind.value}": m.problem for m in verdict.timings.menu if m.problem}
    if verdict.accuracy is not None:
        row["accuracy"] = verdict.accuracy.model_dump(mode="json")
    if verdict.speedup is not None:
        row["speedup"] = verdict.speedup.model_dump(mode="json")
    return row


def geomean(values: list[float]) -> float | None:
    """The geometric mean; None of nothing."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def compared(rows: list[dict], mode: str) -> dict:
    """`mode` as if it were a solution, against the default modes: the published table's columns."""
    pairs = []
    for row in rows:
        times = row.get("baselines_ms", {})
        if {mode, "default eager", "default compile"} <= times.keys():
            pairs.append((times["default eager"] / times[mode], times["default compile"] / times[mode]))
    over_eager, over_compile = ([pair[i] for pair in pairs] for i in (0, 1))
    count = max(1, len(pairs))
    return {
        "tasks": len(pairs),
        "faster_than_eager": sum(r > MARGIN for r in over_eager) / count,
        "faster_than_compile": sum(r > MARGIN for r in over_compile) / count,
        "geomean_over_eager": geomean(over_eager),
        "geomean_over_compile": geomean(over_compile),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernelbench", type=Path, required=True)
    parser.add_argument("--rows", required=True)
    parser.add_argument("--budget-s", type=float, default=3600.0)
    parser.add_argument("--rows-out", type=Path, default=Path("baseline-rows.jsonl"))
    parser.add_argument("--out", type=Path, default=RESULTS / "baselines.json")
    args = parser.parse_args()
    begun = time.monotonic()
    rows = (
        [json.loads(line) for line in args.rows_out.read_text().splitlines()]
        if args.rows_out.exists()
        else []
    )
    bench = wiring.bench(Device.CUDA, lambda phase, what: None, ahead=True)
    settings = JudgeSettings(device=Device.CUDA, baselines=Menu.ALL)
    for spec in args.rows.split(","):
        if any(row["task"] == spec for row in rows) or time.monotonic() - begun > args.budget_s:
            continue
        start = time.monotonic()
        task = tasks.load(f"kernelbench:{args.kernelbench}#{spec}")
        verdict = bench.judge.judge(task, own_model(task), settings)
        rows.append(row_of(spec, task, verdict, time.monotonic() - start))
        with args.rows_out.open("a") as file:
            file.write(json.dumps(rows[-1]) + "\n")
        print(spec, verdict.status.value, rows[-1].get("baselines_ms"), rows[-1]["seconds"], flush=True)
        judged = [row for row in rows if row["status"] == Status.PASSED.value]
        names = sorted({name for row in judged for name in row["baselines_ms"]})
        save(args.out, tasks=rows, against_default={name: compared(judged, name) for name in names})
    bench.judge.close()


if __name__ == "__main__":
    main()
