"""`warpsmith report`: runs as one page, with tables and KernelBench's format beside it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsmith.cli.errors import PASSED, guarded
from warpsmith.cli.options import DebugOption, JsonOption

if TYPE_CHECKING:
    from warpsmith.evaluation.compare import Paired
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
    title: Annotated[str, typer.Option("--title", help="The report's title.")] = "Warpsmith report",
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Write index.html, tables.md, tasks.csv and kernelbench/ from stored runs; judges nothing."""
    from warpsmith.report.html import page
    from warpsmith.report.rows import read_rows
    from warpsmith.report.tables import tables_csv, tables_markdown
    from warpsmith.store import write_atomic
    from warpsmith.store.files import make_folder

    rows = read_rows(runs)
    compared = _compared(read_rows([against]), rows) if against else []
    files = {
        "index.html": page(rows, title, compared),
        "tables.md": tables_markdown(rows, title, compared),
        "tasks.csv": tables_csv(rows),
        **_kernelbench(rows),
    }
    for name, text in files.items():
        make_folder((out / name).parent)
        write_atomic(out / name, text)
    passed = sum(row.passed for row in rows)
    if as_json:
        print(
            json.dumps({"tasks": len(rows), "passed": passed, "files": [str(out / name) for name in files]})
        )
    else:
        print(f"{passed} of {len(rows)} tasks passed; the report is {out / 'index.html'}")
    return PASSED


def _kernelbench(rows: "list[TaskRow]") -> dict[str, str]:
    """One folder a level: `eval_results.json` and the two baseline files that its analysis reads."""
    from warpsmith.evaluation.kernelbench_format import baseline_times, eval_results
    from warpsmith.types import BaselineKind

    pairs = [(row.task, row.verdict) for row in rows if row.task]
    files = {}
    for level in sorted({task.level for task, _ in pairs if task.level is not None}):
        folder = f"kernelbench/level{level}"
        files[f"{folder}/eval_results.json"] = json.dumps(eval_results(pairs, level), indent=1)
        for kind in (BaselineKind.EAGER, BaselineKind.COMPILE):
            text = json.dumps(baseline_times(pairs, level, kind), indent=1)
            files[f"{folder}/baseline_{kind.value}.json"] = text
    return files


def _compared(first: "list[TaskRow]", second: "list[TaskRow]") -> "list[Paired]":
    """Pass rates over all common tasks, speed-ups over those that both passed with a time."""
    from warpsmith.evaluation.compare import paired_geomean, paired_mean

    both = [{_key(row): row for row in rows} for rows in (first, second)]
    found = [paired_mean("pass rate", *({k: float(r.passed) for k, r in rows.items()} for rows in both))]
    for protocol, side in (("paper", "eager"), ("paper", "compile"), ("matched", "best")):
        a, b = (
            {k: v for k, r in rows.items() if (v := r.ratio(protocol, side)) is not None} for rows in both
        )
        if a.keys() & b.keys():
            found.append(paired_geomean(f"geomean vs {side}, {protocol}", a, b))
    return found


def _key(row: "TaskRow") -> str:
    return row.episode.task_hash if row.episode else row.name
