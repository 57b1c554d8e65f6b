"""Which tasks of a set are fit to be rewarded: `warpsmith check` over all of it, with every reason.

    python benchmarks/admission.py --kernelbench FILE.jsonl [--levels 1,2,3,4] [--compile] [--rows FILE] [--out FILE]
    python benchmarks/admission.py --kernelbench FILE.jsonl --again 1/51,2/23
    python benchmarks/admission.py --table [--out FILE]

One process per task, forked from one that has loaded PyTorch, so that a task costs seconds. torch.compile is left out
unless asked for: it costs far more than all the rest. Rows are appended to --rows as they come, and a run that was
killed goes on with the same command: a row answers as long as the task, the settings and CHECK_VERSION are the same.
A change of the checks that can touch a few tasks alone needs no new version: --again asks for those anew and keeps
the rest. --out holds the counts by level and each task that is not plainly fit. --table checks nothing: it writes
what --out holds into docs/kernelbench.md.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from common import RESULTS, save

from warpsmith.evaluation import set_summary
from warpsmith.store.files import write_atomic
from warpsmith.types import Fitness, TaskCheck

EXIT_CODES = (0, 1, 3)
"""All fit, some not, some lost: the rows say which."""
PAGE = Path(__file__).parents[1] / "docs" / "kernelbench.md"
MARK = "<!-- made by benchmarks/admission.py --table; what stands below is replaced -->"


def check(spec: str, rows: Path, options: list[str]) -> list[TaskCheck]:
    """The rows of one `warpsmith check`; its progress goes to stderr."""
    argv = [sys.executable, "-m", "warpsmith", "check", spec, "--out", str(rows), "--json", *options]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True)
    if done.returncode not in EXIT_CODES:
        raise SystemExit(done.returncode)
    answer = json.loads(done.stdout)
    return [TaskCheck.model_validate(row) for row in answer.get("tasks", [answer])]


def forget(rows: Path, again: Sequence[str]) -> int:
    """Takes the rows of these tasks, each LEVEL/PROBLEM, out of the file; how many there were."""
    lines = rows.read_text().splitlines(keepends=True) if rows.exists() else []
    kept = []
    for line in lines:
        row = json.loads(line)
        if f"{row['level']}/{row['problem_id']}" not in again:
            kept.append(line)
    if len(kept) < len(lines):
        write_atomic(rows, "".join(kept))
    return len(lines) - len(kept)


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


def table(found: dict) -> Iterator[str]:
    """Lines of Markdown: on what it was measured, counts by level, each task that is not plainly fit with reasons."""
    on = found["measured_on"]
    yield f"Checked on {on['gpu'] or found['device']}, driver {on['driver']}, torch {on['torch']}, {on['date'][:10]}."
    names = list(found["all"])
    yield ""
    yield f"| | {' | '.join(names)} |"
    yield f"|---|{'---|' * len(names)}"
    for level, counts in sorted(found["counts"].items()):
        yield f"| level {level} | {' | '.join(str(counts[name]) for name in names)} |"
    yield f"| all | {' | '.join(str(found['all'][name]) for name in names)} |"
    for fitness in Fitness:
        tasks = [task for task in found["named"] if task["fitness"] == fitness]
        if tasks:
            yield from _section("Flagged" if fitness is Fitness.FIT else fitness.capitalize(), tasks)


def _section(label: str, tasks: list[dict]) -> Iterator[str]:
    yield ""
    yield f"## {label}"
    yield ""
    yield "| task | name | reasons |"
    yield "|---|---|---|"
    for task in sorted(tasks, key=lambda task: (task["level"], task["problem_id"])):
        # notes of a fit task say how much was examined, which is no reason
        reasons = [*task.get("problems", ()), *task.get("flags", ())] or task.get("notes", [])
        said = "; ".join(reasons).replace("|", "\\|")
        yield f"| {task['level']}/{task['problem_id']} | {task['name']} | {said} |"


def write_page(result: Path, page: Path = PAGE) -> None:
    """Replaces what stands below the mark on the page by the table of a result."""
    if not result.is_file():
        raise SystemExit(f"{result} does not exist; run the checks first")
    head, mark, _ = page.read_text().partition(MARK)
    if not mark:
        raise SystemExit(f"{page} lacks the line {MARK}")
    lines = table(json.loads(result.read_text()))
    page.write_text(f"{head}{MARK}\n\n" + "\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernelbench", type=Path)
    parser.add_argument("--levels", default="1,2,3,4")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--timeout", default="120")
    parser.add_argument("--rows", type=Path, default=Path("admission-rows.jsonl"))
    parser.add_argument("--again", default="", metavar="LEVEL/PROBLEM,…")
    parser.add_argument("--out", type=Path, default=RESULTS / "admission.json")
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.table:
        write_page(args.out)
        return
    if args.kernelbench is None:
        parser.error("--kernelbench or --table is needed")
    if args.again:
        print(f"{forget(args.rows, args.again.split(','))} rows are asked for anew", file=sys.stderr)
    options = ["--device", args.device, "--timeout", args.timeout]
    options.append("--compile" if args.compile else "--no-compile")
    rows: list[TaskCheck] = []
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
