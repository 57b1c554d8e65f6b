"""`warpsmith report`: runs as one page, with tables and KernelBench's format beside it."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsmith.cli.errors import PASSED, guarded
from warpsmith.cli.options import DebugOption, JsonOption, slug

if TYPE_CHECKING:
    from warpsmith.evaluation.compare import Paired
    from warpsmith.evaluation.row import Row
    from warpsmith.report.rows import TaskRow


@guarded
def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN…", help="Run folders, or folders that hold some.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where the report goes.")] = Path(
        "report"
    ),
    against: Annotated[
        Path | None,
        typer.Option("--against", metavar="RUN", help="Another run to compare with, task by task."),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="NAME", help="What a run's line is called; once for each run."),
    ] = None,
    checks: Annotated[
        Path | None,
        typer.Option(
            "--checks", metavar="FILE.jsonl", help="What `check --out` wrote: flagged tasks are told apart."
        ),
    ] = None,
    mixed: Annotated[
        bool, typer.Option("--mixed", help="Let one line mix GPUs, rules or protocols; the report says so.")
    ] = False,
    title: Annotated[str, typer.Option("--title", help="The report's title.")] = "Warpsmith report",
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Write index.html, tables.md, tasks.csv, causes.csv and kernelbench/ from stored runs; judges nothing."""
    from warpsmith.evaluation.metrics import listed
    from warpsmith.evaluation.mixing import refuse_mixed
    from warpsmith.report.causes import causes_csv
    from warpsmith.report.figures import tables
    from warpsmith.report.html import page
    from warpsmith.report.rows import read_rows
    from warpsmith.report.tables import tables_csv, tables_markdown, warnings
    from warpsmith.store import write_atomic
    from warpsmith.store.files import make_folder

    rows = _checked(read_rows(runs, label or ()), checks)
    flat = [row.row for row in rows]
    if not mixed:
        refuse_mixed(flat)
    figures = tables(flat, _compared(flat, against) if against else ())
    files = {
        "index.html": page(rows, title, figures),
        "tables.md": tables_markdown(rows, title, figures),
        "tasks.csv": tables_csv(rows),
        "causes.csv": causes_csv(flat),
        **_kernelbench(rows),
    }
    for name, text in files.items():
        make_folder((out / name).parent)
        write_atomic(out / name, text)
    said = warnings(rows)
    for line in said:
        print(f"warpsmith: compare with care: {line}", file=sys.stderr)
    passed, unknown = sum(row.passed for row in rows), [f"{r.task_name}#{r.sample}" for r in listed(flat)]
    if as_json:
        answer = {"tasks": len(rows), "passed": passed, "unanswered": unknown, "warnings": said}
        print(json.dumps(answer | {"files": [str(out / name) for name in files]}))
        return PASSED
    print(f"{passed} of {len(rows)} passed; the report is {out / 'index.html'}")
    if unknown:
        shown = ", ".join(unknown[:10]) + (f" and {len(unknown) - 10} more" if len(unknown) > 10 else "")
        print(f"nothing is known of {len(unknown)}, which count as not passed: {shown}")
    return PASSED


def _compared(rows: "list[Row]", against: Path) -> "list[Paired]":
    """Each line of the report against the other run, but for the other run itself."""
    from warpsmith.evaluation.compare import compared
    from warpsmith.evaluation.metrics import by_series
    from warpsmith.evaluation.mixing import refuse_mixed
    from warpsmith.report.rows import read_rows

    other = [row.row for row in read_rows([against])]
    refuse_mixed(other)
    lines = by_series(rows)
    chosen = {name: of for name, of in lines.items() if len(lines) == 1 or name != other[0].series}
    found = []
    for name, of in chosen.items():
        pairs = compared(other, of)
        named = [p.model_copy(update={"name": f"{name}: {p.name}"}) for p in pairs]
        found += named if len(lines) > 1 else pairs
    return found


def _checked(rows: "list[TaskRow]", checks: Path | None) -> "list[TaskRow]":
    """Rows with the flags of their tasks' checks."""
    if checks is None:
        return rows
    from warpsmith.evaluation.check_log import read_checks
    from warpsmith.evaluation.row import with_checks

    flat = with_checks([row.row for row in rows], read_checks(checks))
    return [dataclasses.replace(row, row=flagged) for row, flagged in zip(rows, flat, strict=True)]


def _kernelbench(rows: "list[TaskRow]") -> dict[str, str]:
    """One folder a level, of each line: `eval_results.json` and the two baseline files that its analysis reads."""
    from warpsmith.evaluation.kernelbench_format import baseline_times, eval_results
    from warpsmith.types import BaselineKind

    files, lines = {}, list(dict.fromkeys(row.row.series for row in rows))
    for line in lines:
        pairs = [(row.ref, row.verdict) for row in rows if row.row.series == line]
        top = "kernelbench" if len(lines) == 1 else f"kernelbench/{slug(line)}"
        for level in sorted({task.level for task, _ in pairs if task.level is not None}):
            files[f"{top}/level{level}/eval_results.json"] = json.dumps(eval_results(pairs, level), indent=1)
            for kind in (BaselineKind.EAGER, BaselineKind.COMPILE):
                text = json.dumps(baseline_times(pairs, level, kind), indent=1)
                files[f"{top}/level{level}/baseline_{kind.value}.json"] = text
    return files
