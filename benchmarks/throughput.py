"""Verdicts an hour on one GPU: one warm judge, baselines known, submissions one after another.

    python benchmarks/throughput.py --kernelbench FILE.jsonl [--rows 1/19,…] [--budget-s 300] [--menu paper]

Each task is judged with a submission that is its own code under the name ModelNew (rules `practical`), first once to
measure its baselines, which is not counted, then over and over in the order of --rows, a comment making each
submission new. Writes verdicts an hour over the counted ones, seconds of each and where they went, by phase.
"""

import argparse
import contextlib
import re
import statistics
import time
from pathlib import Path

from common import RESULTS, save

from warpsmith.compile import LocalCompiler
from warpsmith.gpu.devices import list_gpus
from warpsmith.gpu.local import LocalPool, visible_gpus
from warpsmith.judge.service import LocalJudge
from warpsmith.judge.timing.clock import quantile
from warpsmith.sandbox import best_available
from warpsmith.sandbox.process import Tree
from warpsmith.tasks.spec import load
from warpsmith.types import Device, Submission, Task, Verdict
from warpsmith.types.protocols import JudgeSettings, Menu

ROWS = "1/1,1/19,1/23,1/26,1/36,1/40,1/47,1/50,1/88,2/12,2/14,2/40,2/59,2/76,3/5,3/8"


def equal(task: Task, number: int) -> Submission:
    """The task's own code as a submission; `number` makes it new."""
    code = re.sub(r"\bModel\b", "ModelNew", task.code)
    return Submission(files={"model_new.py": f"{code}\n# submission {number}\n"})


def row(task: Task, verdict: Verdict, seconds: float) -> dict:
    """What is kept of one verdict."""
    paper = verdict.speedup.paper if verdict.speedup else None
    return {
        "task": f"{task.level}/{task.problem_id}" if task.level else task.name,
        "status": verdict.status.value,
        "detail": "" if verdict.status.value == "passed" else verdict.detail,
        "seconds": round(seconds, 3),
        "phases": verdict.seconds,
        "eager": paper.eager if paper else None,
        "compile": paper.compile if paper else None,
    }


def summary(rows: list[dict]) -> dict:
    """Verdicts an hour, and the mean second of each phase; None before there is one."""
    if not rows:
        return {"verdicts": 0, "verdicts_an_hour": None}
    seconds = [r["seconds"] for r in rows]
    phases = sorted({name for r in rows for name in r["phases"]})
    mean = {name: round(statistics.fmean(r["phases"].get(name, 0.0) for r in rows), 3) for name in phases}
    mean["outside the referee's phases"] = round(statistics.fmean(seconds) - sum(mean.values()), 3)
    return {
        "verdicts": len(rows),
        "verdicts_an_hour": round(3600 / statistics.fmean(seconds), 1),
        "median_s": statistics.median(seconds),
        "p95_s": round(quantile(seconds, 0.95), 3),
        "mean_phase_s": mean,
        "statuses": {s: sum(r["status"] == s for r in rows) for s in sorted({r["status"] for r in rows})},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", help="own task files, besides --kernelbench's")
    parser.add_argument("--kernelbench", type=Path)
    parser.add_argument("--rows", default=ROWS)
    parser.add_argument(
        "--budget-s", type=float, default=300.0, help="the pass over cold baselines not included"
    )
    parser.add_argument("--warm-budget-s", type=float, default=float("inf"), help="later tasks are left out")
    parser.add_argument("--passes", type=int, default=1000)
    parser.add_argument("--menu", type=Menu, choices=list(Menu), default=Menu.PAPER)
    parser.add_argument("--device", type=Device, choices=list(Device), default=Device.CUDA)
    parser.add_argument("--out", type=Path, default=RESULTS / "throughput.json")
    args = parser.parse_args()
    specs = [*args.tasks]
    specs += [f"kernelbench:{args.kernelbench}#{r}" for r in args.rows.split(",") if args.kernelbench and r]
    tasks = [load(spec) for spec in specs]
    arch = visible_gpus(list_gpus(), None)[0].arch if args.device is Device.CUDA else ""
    settings = JudgeSettings(device=args.device, baselines=args.menu)
    judge = LocalJudge(LocalPool(Tree), LocalCompiler(), best_available(), arch=arch, ahead=True)
    with contextlib.closing(judge):
        cold, rows = [], []
        warm_by = time.monotonic() + args.warm_budget_s
        for task in tasks:
            if time.monotonic() < warm_by:
                cold.append(judged(judge, task, 0, settings))
        warm = tasks[: len(cold)]
        ends = time.monotonic() + args.budget_s
        for i in range(args.passes):
            for task in warm:
                if time.monotonic() < ends:
                    rows.append(judged(judge, task, i + 1, settings))
            save(args.out, menu=args.menu.value, summary=summary(rows), cold=cold, rows=rows)
            if time.monotonic() >= ends:
                break
    print(summary(rows))


def judged(judge: LocalJudge, task: Task, number: int, settings: JudgeSettings) -> dict:
    """One judgement, timed from the call to the verdict."""
    begun = time.perf_counter()
    verdict = judge.judge(task, equal(task, number), settings)
    found = row(task, verdict, time.perf_counter() - begun)
    print(found["task"], found["status"], found["seconds"], found["phases"], found["detail"], flush=True)
    return found


if __name__ == "__main__":
    main()
