"""What synthesis makes: the funnel of a set, its rate, its repeatability, and tasks solved and attacked.

    python benchmarks/synthesis.py funnel DIR                counts of DIR/*.jsonl and DIR/filter*.jsonl
    python benchmarks/synthesis.py rate DIR [--tasks 60]     CPU seconds of composing and of the gates
    python benchmarks/synthesis.py again DIR [--tasks 60]    the first tasks composed once more: the same bytes?
    python benchmarks/synthesis.py solve DIR [--tasks 10]    built-in optimizer on sim, beside three trivial cheats
    python benchmarks/synthesis.py sets DIR                  counts of DIR/set_*/ and of DIR/audit_*.json

Each writes its part of benchmarks/results/synthesis.json and leaves the others; `solve` goes on where it stopped.
"""

import argparse
import contextlib
import hashlib
import json
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch
from common import RESULTS, save

from optimizer import SIM_ELEMENTS, SIM_FLOPS, optimized
from warpsmith.cli import wiring
from warpsmith.cli.synth_make import read_catalogue, read_tasks
from warpsmith.sim.shrink import derived
from warpsmith.synthesis.bands import band_of
from warpsmith.synthesis.checks import check
from warpsmith.synthesis.cost import look
from warpsmith.synthesis.dataset import read_set
from warpsmith.synthesis.filtering import funnel
from warpsmith.synthesis.finishing import PARQUET, SUMMARY, SetSummary
from warpsmith.synthesis.grammar import GrammarComposer
from warpsmith.synthesis.mixes import load_mix
from warpsmith.synthesis.records import Band, ComposedTask, FilterRow, Origin, Reject, Split
from warpsmith.synthesis.smaller import smaller
from warpsmith.types import Device, Rules, Status, Submission, Task, TaskSource
from warpsmith.types.protocols import JudgeSettings

OUT = RESULTS / "synthesis.json"
MIXES = ("paper", "graded")
RAN_NOT = {Reject.UNREADABLE, Reject.RAISES, Reject.TOO_LARGE_TO_CHECK, Reject.TIMED_OUT, Reject.CRASHED}
CHEATS = {
    "zeros": "torch.zeros({shape}, device=inputs[0].device)",
    "constant": "torch.full({shape}, 0.5, device=inputs[0].device)",
    "copied_input": "inputs[0].float().flatten().repeat({n} // inputs[0].numel() + 1)[:{n}].reshape({shape})",
}
_CHEAT = """import torch
import torch.nn as nn
{source}

class ModelNew(Model):
    def forward(self, *inputs):
        return {result}
"""


def funnels(folder: Path) -> dict:
    """Counts by set."""
    said, on_gpu = _rows(folder, Device.SIM), _rows(folder, Device.CUDA)
    found = {}
    for name in MIXES:
        tasks = read_tasks([folder / f"{name}.jsonl"])
        rows = [said[t.task_hash] for t in tasks if t.task_hash in said]
        passed = [t for t in tasks if t.task_hash in said and not said[t.task_hash].rejects]
        ran = sum(not (row.rejects and row.rejects[0] in RAN_NOT) for row in rows)
        kinds = Counter(len(t.ops) for t in passed)
        bands = Counter(band_of(len(t.ops), t.cost) for t in passed)
        found[name] = {
            "composed": len(tasks),
            "numbers_tried": max(t.index for t in tasks) + 1,
            "checked": len(rows),
            "funnel": funnel(rows),
            "ran_in_eager_share": round(ran / max(len(rows), 1), 4),
            "passed_share": round(len(passed) / max(len(rows), 1), 4),
            "passed_by_operators": {str(n): kinds[n] for n in sorted(kinds)},
            "passed_by_band": {band.value: bands[band] for band in Band},
            "operators_used": len({op for t in passed for op in t.ops}),
        }
        if measured := [(t, on_gpu[t.task_hash]) for t in tasks if t.task_hash in on_gpu]:
            found[name]["gpu"] = _measured(measured)
    if calls := [json.loads(path.read_text()) for path in sorted(folder.glob("gpu/call*.json"))]:
        found["gpu_calls"] = calls
    return found


def _measured(pairs: list[tuple[ComposedTask, FilterRow]]) -> dict:
    """What a GPU said of tasks that had passed on the CPU, beside the estimates."""
    timed = [(t, t.cost, row.times) for t, row in pairs if row.times and row.times.fusion_gain and t.cost]
    said = [
        (band_of(len(t.ops), cost), band_of(len(t.ops), cost, fusion_gain=times.fusion_gain))
        for t, cost, times in timed
    ]
    after = Counter(band for _, band in said)
    return {
        "checked": len(pairs),
        "funnel": funnel([row for _, row in pairs]),
        "rejected": {t.name: [list(t.ops), row.detail] for t, row in pairs if row.rejects},
        "on": sorted({f"{times.gpu}, torch {times.torch}" for _, _, times in timed}),
        "eager_ms": _spread([times.eager_ms for _, _, times in timed]),
        "fusion_gain": _spread([times.fusion_gain for _, _, times in timed]),
        "eager_over_estimate": _spread([times.eager_ms / cost.eager_ms for _, cost, times in timed]),
        "eager_over_floor": _spread([times.eager_ms / cost.floor_ms for _, cost, times in timed]),
        "compile_over_floor": _spread([times.compile_ms / cost.floor_ms for _, cost, times in timed]),
        "estimate_within_2x": sum(0.5 <= times.eager_ms / cost.eager_ms <= 2 for _, cost, times in timed),
        "by_band": {band.value: after[band] for band in Band},
        "band_as_estimated": sum(before is now for before, now in said),
    }


def _spread(values: list[float]) -> dict[str, float]:
    """Least, deciles and quartiles, greatest, by nearest rank."""
    held = sorted(values)
    places = {"min": 0, "p10": 0.1, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "max": 1}
    return {name: round(held[round(share * (len(held) - 1))], 3) for name, share in places.items()}


def _rows(folder: Path, device: Device) -> dict[str, FilterRow]:
    """What the logs say of each task on a device."""
    lines = [line for path in folder.glob("filter*.jsonl") if "structures" not in path.name
             for line in path.read_text().splitlines()]  # fmt: skip
    rows = map(FilterRow.model_validate_json, lines)
    return {row.task_hash: row for row in rows if row.device is device}


def sets(folder: Path) -> dict:
    """What was written and what the audit says of it."""
    found = {}
    for name in MIXES:
        written = folder / f"set_{name}"
        summary = SetSummary.model_validate_json((written / SUMMARY).read_text())
        rows = read_set(written / PARQUET)
        audit = json.loads((folder / f"audit_{name}.json").read_text())
        blocks = sum(row.provenance.origin is Origin.BLOCK for row in rows)
        kinds = Counter(len(row.ops) for row in rows if row.provenance.origin is not Origin.BLOCK)
        found[name] = {
            "rows": summary.rows, "measured": summary.measured, "selection": summary.selection.model_dump(),
            "by_operators": {"block": blocks, **{str(n): kinds[n] for n in sorted(kinds)}},
            "by_band": {band.value: sum(row.band is band for row in rows) for band in Band},
            "validation": sum(row.split is Split.VALIDATION for row in rows),
            "operators_used": len({op for row in rows for op in row.ops}),
            "sha256": hashlib.sha256((written / PARQUET).read_bytes()).hexdigest(),
            "audit": {key: audit[key] for key in ("clean", "rows", "against", "traced", "untraced", "counts")},
        }  # fmt: skip
    return found


def rate(folder: Path, count: int) -> dict:
    """CPU seconds a task in this process, imports left out."""
    torch.set_num_threads(1)
    found = {}
    for name in MIXES:
        composer = _composer(folder, name)
        composer.compose(0)
        begun = time.process_time()
        tasks = [composer.compose(index) for index in range(1, count + 1)]
        composed = time.process_time()
        with tempfile.TemporaryDirectory() as scratch:
            for task in tasks:
                check(task, Device.SIM, Path(scratch))
        checked = time.process_time()
        compose_s, check_s = (composed - begun) / count, (checked - composed) / count
        found[name] = {
            "tasks": count, "compose_cpu_s": round(compose_s, 4), "check_cpu_s": round(check_s, 4),
            "tasks_a_cpu_minute": round(60 / (compose_s + check_s)),
        }  # fmt: skip
    return found


def again(folder: Path, count: int) -> dict:
    """How many of the grammar's first tasks are the same bytes when composed in a new process."""
    found = {}
    for name in MIXES:
        composed = read_tasks([folder / f"{name}.jsonl"])
        tasks = [t for t in composed if t.provenance.origin is Origin.GRAMMAR][:count]
        composer = _composer(folder, name)
        same = sum(composer.compose(t.index).model_dump_json() == t.model_dump_json() for t in tasks)
        found[name] = {"tasks": len(tasks), "same_bytes": same}
    return found


def _composer(folder: Path, name: str) -> GrammarComposer:
    seed = read_tasks([folder / f"{name}.jsonl"])[0].provenance.seed
    return GrammarComposer(read_catalogue(folder / "catalogue.json"), load_mix(name), seed or 0)


def solve(folder: Path, count: int, rows: dict, budget_s: float) -> None:
    """The optimizer and the cheats on the first easy tasks that the simulator can hold, until `count` are solved."""
    begun = time.monotonic()
    settings = JudgeSettings(device=Device.SIM, rules=Rules.PRACTICAL)
    bench = wiring.bench(Device.SIM, lambda phase, text: None, ahead=True)
    with contextlib.closing(bench.judge), tempfile.TemporaryDirectory() as runs:
        easy = _easy(folder)
        for name in rows.keys() - {task.name for task in easy}:
            del rows[name]  # the gates refuse it by now
        for task in easy:
            if outline(rows)["solved"] >= count or time.monotonic() - begun > budget_s:
                return
            if task.name in rows:
                continue
            text, _ = smaller(task.code, max_elements=SIM_ELEMENTS, max_flops=SIM_FLOPS)
            if text is None:
                continue
            small = derived(Task(name=task.name, code=task.code, source=TaskSource.SYNTHESIZED), text)
            row = optimized(small, bench, settings, Path(runs) / task.name)
            told = {key: row.get(key) for key in ("status", "kernels", "torch_calls", "seconds")}
            told["cheats"] = {
                name: bench.judge.judge(small, cheat, settings).status.value
                for name, cheat in cheats(text).items()
            }
            rows[task.name] = {"ops": task.ops, **told}
            print(task.name, json.dumps(rows[task.name]), flush=True)
            write(solve={"tasks": rows, **outline(rows)})


def _easy(folder: Path) -> list[ComposedTask]:
    said, on_gpu = _rows(folder, Device.SIM), _rows(folder, Device.CUDA)
    refused = {name for rows in (said, on_gpu) for name, row in rows.items() if row.rejects}
    tasks = read_tasks([folder / f"{name}.jsonl" for name in reversed(MIXES)])
    return [t for t in tasks if t.task_hash in said.keys() - refused
            and band_of(len(t.ops), t.cost) in (Band.EASY, Band.MEDIUM)]  # fmt: skip


def cheats(code: str) -> dict[str, Submission]:
    """Three submissions that compute nothing of the task."""
    seen = look(code)
    source = code.partition("\nclass Model")[1] + code.partition("\nclass Model")[2]
    if "nn.functional as F" in code:
        source = "import torch.nn.functional as F\n" + source
    n = 1
    for size in seen.output_shape:
        n *= size
    return {
        name: Submission(files={"model_new.py": _CHEAT.format(
            source=source, result=result.format(shape=tuple(seen.output_shape), n=n))})
        for name, result in CHEATS.items()
    }  # fmt: skip


def outline(rows: dict) -> dict:
    """How many were solved, and how many cheats were told."""
    refused = {Status.WRONG.value, Status.CHEATED.value}
    answers = [status for row in rows.values() for status in row["cheats"].values()]
    return {
        "solved": sum(row["status"] == Status.PASSED.value for row in rows.values()),
        "attacks": len(answers),
        "attacks_refused": sum(status in refused for status in answers),
    }


def write(**parts: object) -> None:
    """Replaces parts of the result file."""
    known = json.loads(OUT.read_text()) if OUT.exists() else {}
    known.pop("measured_on", None)
    save(OUT, **{**known, **parts})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("funnel", "rate", "again", "solve", "sets"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tasks", type=int, default=0)
    parser.add_argument("--budget-s", type=float, default=float("inf"))
    args = parser.parse_args()
    if args.what == "funnel":
        write(funnel=funnels(args.folder))
    elif args.what == "sets":
        write(sets=sets(args.folder))
    elif args.what == "rate":
        write(rate=rate(args.folder, args.tasks or 60))
    elif args.what == "again":
        write(again=again(args.folder, args.tasks or 60))
    else:
        known = json.loads(OUT.read_text()) if OUT.exists() else {}
        solve(args.folder, args.tasks or 10, known.get("solve", {}).get("tasks", {}), args.budget_s)


if __name__ == "__main__":
    main()
