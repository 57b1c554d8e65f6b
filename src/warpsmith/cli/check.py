"""`warpsmith check`: is a task fit to be rewarded, and can anything be gained."""

import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsmith.cli.errors import INFRASTRUCTURE, OTHER_VERDICT, PASSED, guarded
from warpsmith.cli.options import DebugOption, DeviceOption, JsonOption, unknown

if TYPE_CHECKING:
    from warpsmith.cli.progress import Reporter
    from warpsmith.evaluation import CheckLog
    from warpsmith.types import CheckSettings, Purpose, Task, TaskCheck

AUTO = "auto"


@guarded
def check(
    task: Annotated[str, typer.Argument(metavar="TASK", help="Task file, or SOURCE:PATH[#LEVEL[/PROBLEM]].")],
    device: DeviceOption = "auto",
    purpose: Annotated[
        str, typer.Option("--for", metavar="auto|benchmark|training", help="What training refuses too.")
    ] = AUTO,
    try_compile: Annotated[
        bool, typer.Option("--compile/--no-compile", help="On a GPU, also try torch.compile.")
    ] = True,
    timeout_s: Annotated[float, typer.Option("--timeout", help="Seconds for one task.")] = 180.0,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.jsonl", help="One row a task; goes on from there.")
    ] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Check tasks: exit status 0 if all are fit, 1 if some have problems or cannot run here."""
    from warpsmith import tasks
    from warpsmith.cli import wiring
    from warpsmith.cli.progress import reporter
    from warpsmith.evaluation import CheckLog
    from warpsmith.types import CheckSettings

    found = tasks.load_all(task)
    chosen_purpose = _purpose(purpose, found[0])
    settings = CheckSettings(device=wiring.device(device), purpose=chosen_purpose, compile=try_compile)
    wiring.require_judge_extra()
    # stdout carries the answer alone, whatever a library prints
    with contextlib.redirect_stdout(sys.stderr), contextlib.ExitStack() as stack:
        progress = stack.enter_context(reporter())
        log = stack.enter_context(CheckLog(out)) if out else None
        rows = _check(found, settings, log, timeout_s, progress)
    _print(rows, as_json=as_json)
    return exit_status(rows)


def exit_status(rows: "list[TaskCheck]") -> int:
    """3 where the check of any was lost, else 1 where any is not fit, else 0."""
    from warpsmith.types import Fitness

    found = {row.fitness for row in rows}
    if Fitness.INFRASTRUCTURE in found:
        return INFRASTRUCTURE
    return PASSED if found == {Fitness.FIT} else OTHER_VERDICT


def _purpose(word: str, first: "Task") -> "Purpose":
    """By the source where nothing is said: all tasks of one spec have one source."""
    from warpsmith.types import Purpose, TaskSource

    if word != AUTO:
        if word not in tuple(Purpose):
            raise unknown("purpose", word, [AUTO, *Purpose])
        return Purpose(word)
    made_for_training = first.source in (TaskSource.SYNTHESIZED, TaskSource.OPS6K)
    return Purpose.TRAINING if made_for_training else Purpose.BENCHMARK


def _check(
    tasks: "list[Task]",
    settings: "CheckSettings",
    log: "CheckLog | None",
    timeout_s: float,
    progress: "Reporter",
) -> "list[TaskCheck]":
    """One row a task, in order: rows of the log where they answer, new ones (logged as they come) elsewhere."""
    from warpsmith.cli import wiring
    from warpsmith.evaluation.check_table import headline, title
    from warpsmith.judge.admission.check import TaskChecker

    questions = [settings.question(task) for task in tasks]
    rows = {q: row for q in questions if log is not None and (row := log.find(q)) is not None}
    missing = {q: task for q, task in zip(questions, tasks, strict=True) if q not in rows}
    if rows:
        progress.note(f"{len(rows)} of {len(rows) + len(missing)} were checked before")
    total = len(rows) + len(missing)

    def told(row: "TaskCheck") -> None:
        if log is not None:
            log.append(row)
        rows[row.question] = row
        progress.phase("check", f"{len(rows)} of {total}")
        progress.note(f"{len(rows)}/{total} {title(row)}: {headline(row)}")

    progress.phase("check", f"{len(missing)} task{'s' if len(missing) != 1 else ''} on {settings.device}")
    checker = TaskChecker(wiring.pool())
    for row in checker.check(list(missing.values()), settings, timeout_s=timeout_s, told=told):
        rows[row.question] = row
    return [rows[q] for q in dict.fromkeys(questions)]


def _print(rows: "list[TaskCheck]", *, as_json: bool) -> None:
    from warpsmith.evaluation import check_lines, set_lines, set_summary

    if as_json and len(rows) == 1:
        print(rows[0].model_dump_json())
    elif as_json:
        counts = set_summary(rows).model_dump()
        print(json.dumps({"counts": counts, "tasks": [row.model_dump(mode="json") for row in rows]}))
    else:
        print("\n".join(check_lines(rows[0]) if len(rows) == 1 else set_lines(rows)))
