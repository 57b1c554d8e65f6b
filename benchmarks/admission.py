"""Which tasks of a set are fit to be rewarded: `warpsmith check` over all of it, with every reason.

    python benchmarks/admission.py --kernelbench FILE.jsonl [--levels 1,2,3] [--compile] [--rows FILE] [--out FILE]

One process per task, forked from one that has loaded PyTorch, so that a task costs seconds. torch.compile is left out
unless asked for: it costs far more than all the rest. Rows are appended to --rows as they come, and a run that was
killed goes on with the same command. --out holds the counts by level and each task that is not plainly fit.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from common import RESULTS, save

from warpsmith.evaluation import set_summary
from warpsmith.types import Fitness, TaskCheck

EXIT_CODES = (0, 1, 3)
"""All fit, some not, some lost: the rows say which."""


def check(spec: str, rows: Path, options: list[str]) -> list[TaskCheck]:
    """The rows of one `warpsmith check`; its progress goes to stderr."""
    argv = [sys.executable, "-m", "warpsmith", "check", spec, "--out", str(rows), "--json", *options]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True)
    if done.returncode not in EXIT_CODES:
        raise SystemExit(done.returncode)
    answer = json.loads(done.stdout)
    return [TaskCheck.model_validate(row) for row in answer.get("tasks", [answer])]


def named(row: TaskCheck) -> dict:
    """What a reader of the list needs of a task that is not plainly fit."""
    reasons = {"problems": row.problems, "flags": row.flags, "notes": row.notes}
    return {
        "level": row.level,
        "problem_id": row.problem_id,
        "name": row.task_name,
        "fitness": row.fitness.value,
        **{name: list(texts) for name, texts in reasons.items() if texts},
    }


def figures(row: TaskCheck) -> dict:
    """Estimates of every task, in short."""
    found = row.estimate.model_dump(exclude_none=True) if row.estimate else {}
    return {"task": f"{row.level}/{row.problem_id}", "seconds": row.seconds, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernelbench", type=Path, required=True)
    parser.add_argument("--levels", default="1,2,3")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--timeout", default="120")
    parser.add_argument("--rows", type=Path, default=Path("admission-rows.jsonl"))
    parser.add_argument("--out", type=Path, default=RESULTS / "admission.json")
    args = parser.parse_args()
    options = ["--device", args.device, "--timeout", args.timeout]
    options.append("--compile" if args.compile else "--no-compile")
    rows = []
    for level in args.levels.split(","):
        rows += check(f"kernelbench:{args.kernelbench}#{level}", args.rows, options)
        levels = sorted({row.level for row in rows})
        save(
            args.out,
            revision=rows[0].revision,
            device=args.device,
            counts={str(n): set_summary([r for r in rows if r.level == n]).model_dump() for n in levels},
            all=set_summary(rows).model_dump(),
            named=[named(r) for r in rows if r.flags or r.fitness is not Fitness.FIT],
            estimates=[figures(r) for r in rows],
        )
    print(json.dumps(set_summary(rows).model_dump()))


if __name__ == "__main__":
    main()
