"""The judge against itself: candidates equal to their baseline on ten tasks, and what the ratio says of them.

    python benchmarks/aa.py [--tasks NAME,…] [--trials 300] [--budget-s N] [--out FILE]
    python benchmarks/aa.py --merge FILE FILE … --out FILE

A trial is one ratio, median of the baseline's brackets over median of the candidate's, under the default protocol:
warm-up, verification, number and length of brackets, retries. For speed one pair of processes gives all trials of a
task: `apart` trials measure candidate, then baseline, as two verdicts would; `in_turn` trials let brackets of both
alternate, as a verdict does where a ratio lies near a threshold. The null cost is measured anew for each trial in
turn, and for `apart` trials once in ten. Trials that the judge calls unstable get no ratio and are counted.
`naming_ms` is the longest naming of outputs in a trial: the allowance in `judge/timing/clock.py` must hold it.

A killed run goes on with the same command. Several GPUs: one process a GPU, each with its own CUDA_VISIBLE_DEVICES,
tasks and file; then --merge.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from common import RESULTS, save

from warpsmith.judge.timing.clock import quantile, time_stats
from warpsmith.sandbox import best_available, python_paths
from warpsmith.store.paths import cache_root
from warpsmith.types import Device, Rules
from warpsmith.types.protocols import JudgeSettings

ENOUGH_MS = 0.2
"""From here on a ratio should hold to 2 %."""
WITHIN = 0.02
MARGIN = 1.05
NULL_EVERY = 10
HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n"
TASKS: dict[str, tuple[str, str, str]] = {
    "relu_16m": ("", "torch.relu(x)", "torch.rand(4096, 4096)"),
    "gelu_32m": ("", "F.gelu(x)", "torch.rand(8192, 4096)"),
    "softmax": ("", "torch.softmax(x, 1)", "torch.rand(8192, 8192)"),
    "layer_norm": ("self.norm = nn.LayerNorm(4096)", "self.norm(x)", "torch.rand(16384, 4096)"),
    "row_sum": ("", "x.sum(1)", "torch.rand(32768, 8192)"),
    "relu_256m": ("", "torch.relu(x)", "torch.rand(16384, 16384)"),
    "gemm_2048": ("", "x @ y", "torch.rand(2048, 2048), torch.rand(2048, 2048)"),
    "conv": ("self.conv = nn.Conv2d(64, 64, 3, padding=1)", "self.conv(x)", "torch.rand(32, 64, 128, 128)"),
    "attention": ("", "torch.softmax(x @ x.T, 1) @ x", "torch.rand(8192, 1024)"),
    "gemm_large": ("", "x @ y", "torch.rand(16384, 9216), torch.rand(9216, 16384)"),
}
"""Name: what the constructor makes, what forward returns of x and y, the inputs. 0.03 to 100 ms on an H200."""
QUANTILES = (0, 0.005, 0.05, 0.5, 0.95, 0.995, 1)


def sources(name: str, shrink: int = 1) -> tuple[str, str]:
    """The task's code and the submission's; sizes from 256 on divided by `shrink`."""
    init, result, inputs = TASKS[name]
    arguments = "x, y" if "y" in result.split() else "x"
    body = (
        f"(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init or 'pass'}\n\n"
        f"    def forward(self, {arguments}):\n        return {result}\n"
    )
    for size in (16384, 32768, 9216, 8192, 4096, 2048, 1024):
        if shrink > 1:
            body, inputs = (text.replace(str(size), str(size // shrink)) for text in (body, inputs))
    tail = f"\ndef get_inputs():\n    return [{inputs}]\n\ndef get_init_inputs():\n    return []\n"
    return f"{HEAD}class Model{body}{tail}", f"{HEAD}class ModelNew{body}"


def ratios(name: str, args: argparse.Namespace) -> Iterator[dict]:
    """Trials without end: a `kind` each, and `ratio` with both medians, or why it is `unstable`."""
    from warpsmith.judge.evidence.observer.build import lay_out
    from warpsmith.judge.job import JobFolder, RefereeJob, RefereeSetup
    from warpsmith.judge.referee import Starter
    from warpsmith.judge.session import Session
    from warpsmith.judge.timing.modes import PAPER

    device = Device(args.device)
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="warpsmith-aa-")))
        root.chmod(0o755)
        folder = JobFolder(root)
        for path in (folder.candidate, folder.share, folder.baseline, root / "caches"):
            path.mkdir(parents=True)
        task, submission = sources(name, args.shrink)
        (folder.candidate / "model_new.py").write_text(submission)
        (folder.baseline / "task.py").write_text(task)
        setup = RefereeSetup(
            device=device, sandbox=best_available().name, baseline_dir=str(root / "baselines"),
            compile_cache_dir=str(root / "caches"), own_paths=python_paths(),
        )  # fmt: skip
        settings = JudgeSettings(device=device, rules=Rules.PRACTICAL)
        job = RefereeJob(task_hash="0" * 64, task_name=name, submission_hash="0" * 64, settings=settings)
        lay_out(cache_root() / "observer", folder.observer)
        start = Starter(folder, setup, stack)
        candidate = start.runner("the candidate", folder.candidate)
        baseline = start.runner("the baseline", folder.baseline)
        session = Session(folder, job, lambda phase, what: None)
        session.admit(task)
        stack.callback(session.bench.close)
        session.correctness(candidate)
        session.interleaved(candidate, baseline, PAPER[0], 600.0)
        yield from trials(session, candidate, baseline)


def trials(session, candidate, baseline) -> Iterator[dict]:
    """Both kinds of trials in turn, on processes that are loaded and warm."""
    from warpsmith.judge.correctness.untimed import Tally
    from warpsmith.judge.evidence.gather import Gathered
    from warpsmith.judge.timing.measure import Timed

    null, done = None, 0
    while True:
        shown: list = []
        tally = Tally()

        def keep(bracket, tally=tally, shown=shown) -> None:
            shown.append(bracket)
            tally.add(bracket)

        mine, theirs = (Timed(r, 600.0, keep, Gathered()) for r in (candidate, baseline))
        if done % 2:
            found = session.timer.interleave(mine, theirs)
            pair = found.candidate, found.baseline
            trial = {"kind": "in_turn"}
        else:
            first = session.timer.measure(mine)
            second = session.timer.measure(theirs, nulls=done % (2 * NULL_EVERY) == 0)
            null = second.null or null
            pair = first, replace(second, null=null)
            trial = {"kind": "apart"}
        null = pair[1].null
        stats = [time_stats(samples, null.median_ms) for samples in pair]
        trial |= {"candidate_ms": stats[0].median_ms, "baseline_ms": stats[1].median_ms}
        trial |= {"calls": shown[-1].calls, "naming_ms": max(bracket.describing_ms for bracket in shown)}
        if unstable := pair[0].unstable or pair[1].unstable:
            trial["unstable"] = unstable
        else:
            trial["ratio"] = stats[1].median_ms / stats[0].median_ms
        done += 1
        yield trial


def described(rows: list[dict]) -> dict:
    """Quantiles of one task's ratios by kind, and how many were unstable."""
    found: dict = {"median_ms": quantile([row["candidate_ms"] for row in rows], 0.5), "trials": len(rows)}
    found |= {
        "calls": rows[-1]["calls"],
        "naming_ms_p99": round(quantile([r["naming_ms"] for r in rows], 0.99), 4),
    }
    for kind in ("apart", "in_turn"):
        values = [row["ratio"] for row in rows if row["kind"] == kind and "ratio" in row]
        found[f"{kind}_unstable"] = sum(row["kind"] == kind and "unstable" in row for row in rows)
        if values:
            found[kind] = {f"p{100 * q:g}": round(quantile(values, q), 4) for q in QUANTILES}
            found[kind] |= shares(values)
    return found


def shares(values: list[float]) -> dict:
    """Of these ratios of equal programs: how many are close to 1, and how many would earn the 5 % milestone."""
    close = sum(abs(v - 1) <= WITHIN for v in values) / len(values)
    return {
        "trials": len(values), "within_2_percent": close, "above_1.05": sum(v > MARGIN for v in values) / len(values),
    }  # fmt: skip


def summary(rows: dict[str, list[dict]]) -> dict:
    """All tasks: by task, and over those long enough for the goal."""
    tasks = {name: described(found) for name, found in rows.items() if found}
    long = {name for name, told in tasks.items() if told["median_ms"] >= ENOUGH_MS}
    total: dict = {"trials": sum(t["trials"] for t in tasks.values())}
    for kind in ("apart", "in_turn"):
        by_task = {
            n: [r["ratio"] for r in found if r["kind"] == kind and "ratio" in r] for n, found in rows.items()
        }
        every = [v for values in by_task.values() for v in values]
        enough = [v for name, values in by_task.items() if name in long for v in values]
        total[kind] = {
            "all": shares(every) if every else None,
            "from_0.2_ms": shares(enough) if enough else None,
        }
    return {"total": total, "tasks": tasks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--trials", type=int, default=300, help="a task, both kinds together")
    parser.add_argument(
        "--budget-s", type=float, default=float("inf"), help="shared evenly by the tasks left"
    )
    parser.add_argument(
        "--device", choices=["cuda", "sim"], default="cuda", help="sim: tries the script, no result"
    )
    parser.add_argument("--shrink", type=int, default=1, help="divides sizes, to try the script")
    parser.add_argument("--merge", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, default=RESULTS / "aa.json")
    args = parser.parse_args()
    rows: dict[str, list[dict]] = {}
    for path in args.merge or ([args.out] if args.out.exists() else []):
        for name, found in json.loads(path.read_text())["rows"].items():
            rows.setdefault(name, []).extend(found)
    ends = time.monotonic() + args.budget_s
    names = [] if args.merge else [n for n in args.tasks.split(",") if len(rows.get(n, [])) < args.trials]
    for i, name in enumerate(names):
        now = time.monotonic()
        until = now + (ends - now) / (len(names) - i)
        mine = rows.setdefault(name, [])
        for trial in ratios(name, args):
            mine.append(trial)
            if len(mine) >= args.trials or time.monotonic() > until:
                break
            if len(mine) % 20 == 0:
                save(args.out, summary=summary(rows), rows=rows)
        print(name, json.dumps(described(mine)), flush=True)
        save(args.out, summary=summary(rows), rows=rows)
    save(args.out, summary=summary(rows), rows=rows)
    print(json.dumps(summary(rows)["total"], indent=1))


if __name__ == "__main__":
    main()
