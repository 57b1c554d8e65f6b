"""Verdicts an hour on one GPU: a run's own fleet, baselines known, `--jobs` submissions under way at a time.

    python benchmarks/throughput.py --kernelbench FILE.jsonl [--rows 1/19,…] [--budget-s 300] [--jobs 3]

Each task is judged with a submission that is its own code under the name ModelNew (rules `practical`), first once to
measure its baselines, which is not counted, then over and over in the order of --rows, a comment making each
submission new. The GPU is one judgement's at a time; what needs none of it is done meanwhile. Writes verdicts an
hour over the counted ones by the wall's clock, seconds of each (waiting for the GPU included) and where they went.
"""

import argparse
import queue
import re
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

from common import RESULTS, save

from warpsmith.judge.timing.clock import quantile
from warpsmith.recipes.fleet import LocalFleet, Station
from warpsmith.tasks.spec import load
from warpsmith.types import Device, Submission, Task, Verdict
from warpsmith.types.protocols import JudgeSettings, Menu

ROUND = 12
"""Judgements between two looks at the clock, and two savings."""
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


def summary(rows: list[dict], wall_s: float) -> dict:
    """Verdicts an hour, and the mean second of each phase; None before there is one."""
    if not rows:
        return {"verdicts": 0, "verdicts_an_hour": None}
    seconds = [r["seconds"] for r in rows]
    phases = sorted({name for r in rows for name in r["phases"]})
    mean = {name: round(statistics.fmean(r["phases"].get(name, 0.0) for r in rows), 3) for name in phases}
    mean["outside the referee's phases"] = round(statistics.fmean(seconds) - sum(mean.values()), 3)
    return {
        "verdicts": len(rows),
        "verdicts_an_hour": round(3600 * len(rows) / wall_s, 1),
        "wall_s": round(wall_s, 1),
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
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--passes", type=int, default=1000)
    parser.add_argument("--menu", type=Menu, choices=list(Menu), default=Menu.PAPER)
    parser.add_argument("--device", type=Device, choices=list(Device), default=Device.CUDA)
    parser.add_argument("--out", type=Path, default=RESULTS / "throughput.json")
    args = parser.parse_args()
    specs = [*args.tasks]
    specs += [f"kernelbench:{args.kernelbench}#{r}" for r in args.rows.split(",") if args.kernelbench and r]
    tasks = [load(spec) for spec in specs]
    settings = JudgeSettings(device=args.device, baselines=args.menu)
    with LocalFleet(args.device, args.jobs) as fleet, ThreadPoolExecutor(args.jobs) as threads:
        stations: queue.Queue[Station] = queue.Queue()
        for _ in range(args.jobs):
            stations.put(fleet.station())
        warm_by = time.monotonic() + args.warm_budget_s
        cold = [judged(stations, task, 0, settings) for task in tasks if time.monotonic() < warm_by]
        begun = time.monotonic()
        rows: list[dict] = []
        for asked in rounds(tasks[: len(cold)], args.passes, begun + args.budget_s):
            rows += threads.map(lambda pair: judged(stations, *pair, settings), asked)
            told = summary(rows, time.monotonic() - begun)
            save(args.out, menu=args.menu.value, jobs=args.jobs, summary=told, cold=cold, rows=rows)
    print(summary(rows, time.monotonic() - begun))


def rounds(tasks: list[Task], passes: int, ends: float) -> Iterator[list[tuple[Task, int]]]:
    """Tasks with a number each, some at a time; none after `ends` on time.monotonic's clock."""
    asked = [(task, number + 1) for number, task in product(range(passes), tasks)]
    for first in range(0, len(asked), ROUND):
        if time.monotonic() > ends:
            return
        yield asked[first : first + ROUND]


def judged(stations: "queue.Queue[Station]", task: Task, number: int, settings: JudgeSettings) -> dict:
    """One judgement, timed from the call to the verdict."""
    station = stations.get()
    try:
        begun = time.perf_counter()
        verdict = station.judge.judge(task, equal(task, number), settings)
        found = row(task, verdict, time.perf_counter() - begun)
    finally:
        stations.put(station)
    print(found["task"], found["status"], found["seconds"], found["phases"], found["detail"], flush=True)
    return found


if __name__ == "__main__":
    main()
