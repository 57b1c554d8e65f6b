"""The built-in policy over many tasks in one process with one warm judge, as `warpsmith optimize` works on each.

    python benchmarks/optimizer.py --kernelbench FILE.jsonl [--levels 1,2 | --rows 1/19,1/23,…] [TASK.py …]
        [--composed FILE.jsonl --slice 0:200] [--device cuda] [--rules practical] [--baselines matched]
        [--budget-s 540] [--again] [--out FILE]

Writes, a task: status, both speed-ups, median times, the share of the byte floor that is reached, kernels of ours,
operators left to PyTorch, what the policy said, and seconds. A task already in FILE with the same code is not run
again (--again: it is), no task is begun after --budget-s seconds, and FILE is written after each, so a run that was
stopped goes on with the same command. A judgement that the machine failed is run again next time. --composed takes
what `warpsmith synth compose` wrote, of it those of two operators or more, scaled down on the simulator.
"""

import argparse
import contextlib
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from common import RESULTS, save

from warpsmith import tasks
from warpsmith.cli import wiring
from warpsmith.errors import WarpsmithError
from warpsmith.optimizer import BuiltinPolicy
from warpsmith.rollout import run_episode
from warpsmith.sim.shrink import derived, shrink
from warpsmith.store import Manifest, RunStore
from warpsmith.synthesis.records import ComposedTask
from warpsmith.synthesis.smaller import smaller
from warpsmith.types import Device, Rules, Status, Task, TaskSource, Verdict
from warpsmith.types.protocols import JudgeSettings, Menu

SIM_ELEMENTS, SIM_FLOPS = 1 << 14, 1 << 24
"""Of a composed task on the simulator, at most."""


class Recording(BuiltinPolicy):
    """The built-in policy, with what each of its processes answered."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = []

    def _ask(self, *args: object, **kwargs: object) -> object:
        answer = super()._ask(*args, **kwargs)
        self.answers.append(answer)
        return answer


def optimized(task: Task, bench: wiring.Bench, settings: JudgeSettings, folder: Path) -> dict:
    """One episode as a row of the result file."""
    policy, start = Recording(), time.perf_counter()
    row: dict = {"name": task.name, "task_hash": task.task_hash}
    if settings.device is Device.SIM:
        task = shrink(task)
    with RunStore(folder) as store:
        manifest = {"command": "optimize", "task_hash": task.task_hash, "task_name": task.name}
        store.open(Manifest(**manifest, policy=policy.name, device=settings.device))
        store.put_blob(task.code)
        episode = run_episode(
            task,
            policy,
            judge=bench.judge,
            compiler=bench.compiler,
            target=bench.target,
            settings=settings,
            store=store,
        )
        final = store.verdict(episode.final_verdict_hash) if episode.final_verdict_hash else None
        if final is None and episode.turns and episode.turns[-1].verdict_hash:
            final = store.verdict(episode.turns[-1].verdict_hash)
    row |= {"stop": episode.stop.value, "notes": [turn.note for turn in episode.turns]}
    if policy.answers:
        row["kernels"] = policy.answers[-1].kernels
        row["torch_calls"] = policy.answers[-1].torch_calls
    row |= figures(final) if final else {"status": None}
    return row | {"turns": len(episode.turns), "seconds": round(time.perf_counter() - start, 1)}


def figures(verdict: Verdict) -> dict:
    """What a reader of the table needs of a verdict."""
    told = verdict.model_dump(mode="json")
    row = {k: told[k] for k in ("status", "detail", "error", "speedup", "floor")}
    for name, stats in (told["timings"] or {}).items():
        if isinstance(stats, dict):
            row[name] = {k: v for k, v in stats.items() if k != "samples_ms"}
    return row


def wanted(args: argparse.Namespace) -> dict[str, Task]:
    """The tasks by the names that rows have in the file."""
    found = {Path(path).stem: tasks.load(path) for path in args.tasks}
    if args.kernelbench:
        levels, rows = set(args.levels.split(",")), set(filter(None, args.rows.split(",")))
        for line in args.kernelbench.read_text().splitlines():
            entry = json.loads(line)
            name = f"{entry['level']}/{entry['problem_id']}"
            if name in rows if rows else str(entry["level"]) in levels:
                found[name] = tasks.load(f"kernelbench:{args.kernelbench}#{name}")
    if args.composed:
        first, end = map(int, args.slice.split(":"))
        found |= {task.name: task for task in islice(fused(args.composed, Device(args.device)), first, end)}
    return found


def fused(path: Path, device: Device) -> Iterator[Task]:
    """Composed tasks of several operators; on the simulator at sizes that it can run, others are passed over."""
    for line in path.read_text().splitlines():
        composed = ComposedTask.model_validate_json(line)
        task = Task(name=composed.name, code=composed.code, source=TaskSource.SYNTHESIZED)
        if len(composed.ops) < 2:
            continue
        if device is Device.SIM:
            text, _ = smaller(composed.code, max_elements=SIM_ELEMENTS, max_flops=SIM_FLOPS)
            if text is None:
                continue
            task = derived(task, text)
        yield task


def outline(rows: dict[str, dict]) -> dict:
    """Counts by status, and the median speed-up over eager and share of the floor of what passed."""
    passed = [r for r in rows.values() if r.get("status") == Status.PASSED]
    statuses = [str(r.get("status")) for r in rows.values()]
    floors = [r["floor"]["share"] for r in passed if r.get("floor") and r["floor"].get("share") is not None]
    return {
        "tasks": len(rows),
        "statuses": {s: statuses.count(s) for s in sorted(set(statuses))},
        "all_own": sum(not r.get("torch_calls", 1) for r in passed),
        "median_floor_share": statistics.median(floors) if floors else None,
        "seconds": round(sum(r.get("seconds", 0) for r in rows.values()), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--kernelbench", type=Path)
    parser.add_argument("--levels", default="1,2")
    parser.add_argument("--rows", default="")
    parser.add_argument("--composed", type=Path)
    parser.add_argument("--slice", default="0:200", help="of the composed tasks")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rules", type=Rules, default=Rules.PRACTICAL)
    parser.add_argument("--baselines", type=Menu, default=Menu.MATCHED)
    parser.add_argument("--budget-s", type=float, default=float("inf"))
    parser.add_argument("--again", action="store_true", help="Run tasks that are in the file already.")
    parser.add_argument("--out", type=Path, default=RESULTS / "optimizer.json")
    args = parser.parse_args()
    started = time.monotonic()
    device = wiring.device(args.device)
    settings = JudgeSettings(device=device, rules=args.rules, baselines=args.baselines)
    rows = json.loads(args.out.read_text())["tasks"] if args.out.exists() else {}
    bench = wiring.bench(device, lambda phase, text: None, ahead=True)
    scratch = tempfile.TemporaryDirectory(prefix="warpsmith-optimizer-")
    with contextlib.closing(bench.judge), scratch as runs:
        for name, task in wanted(args).items():
            known = rows.get(name, {})
            lost = "said" in known or known.get("status") == Status.INFRASTRUCTURE
            if known.get("task_hash") == task.task_hash and not lost and not args.again:
                continue
            if time.monotonic() - started > args.budget_s:
                print(f"the budget of {args.budget_s:g} s is spent: run the same command to go on")
                break
            try:
                rows[name] = optimized(task, bench, settings, Path(runs) / name.replace("/", "-"))
            except WarpsmithError as error:
                rows[name] = {
                    "name": task.name,
                    "task_hash": task.task_hash,
                    "status": None,
                    "said": str(error),
                }
            print(name, json.dumps(rows[name]), flush=True)
            save(args.out, outline=outline(rows), tasks=rows)


if __name__ == "__main__":
    main()
