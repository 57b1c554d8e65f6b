"""`warpsmith synth write|from`: a set of what passed, and tasks of a user's own modules."""

import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsmith.cli.errors import PASSED, guarded
from warpsmith.cli.options import DebugOption, JsonOption
from warpsmith.cli.synth_make import TasksArgument, read_tasks
from warpsmith.errors import UsageError

if TYPE_CHECKING:
    from warpsmith.synthesis.records import ComposedTask


@guarded
def write(
    tasks: TasksArgument,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The set, its card and plots.")],
    log: Annotated[
        Path, typer.Option("--log", metavar="FILE.jsonl", help="What `synth filter` wrote.")
    ] = Path("filter.jsonl"),
    benchmark: Annotated[
        list[str] | None,
        typer.Option(
            "--not-in", metavar="TASKS", help="Leave out what repeats these, such as kernelbench:PATH."
        ),
    ] = None,
    mix: Annotated[
        str | None, typer.Option("--mix", metavar="NAME|FILE.toml", help="With --count: keep to its shares.")
    ] = None,
    count: Annotated[int | None, typer.Option("--count", min=1, help="Rows that the set is to hold.")] = None,
    measured_only: Annotated[
        bool, typer.Option("--measured-only", help="Only rows that a GPU has run at full size.")
    ] = False,
    pass_rates: Annotated[
        Path | None,
        typer.Option(
            "--pass-rates", metavar="FILE.jsonl", help="task_hash and pass_rate of your policy: the bands."
        ),
    ] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Write what passed as parquet: no two rows alike, none of the benchmark's."""
    from warpsmith import tasks as sources
    from warpsmith.cli import wiring
    from warpsmith.cli.progress import reporter
    from warpsmith.synthesis.bands import read_pass_rates
    from warpsmith.synthesis.mixes import load_mix

    if (mix is None) != (count is None):
        raise UsageError("--mix and --count go together", hint="give both, or neither")
    chosen = load_mix(mix) if mix else None
    rates = read_pass_rates(pass_rates) if pass_rates else {}
    found = read_tasks(tasks)
    against = [task for spec in benchmark or [] for task in sources.load_all(spec)]
    wiring.require_judge_extra()
    with contextlib.redirect_stdout(sys.stderr), reporter() as progress:
        from warpsmith.sandbox import best_available
        from warpsmith.synthesis.filtering import FilterLog
        from warpsmith.synthesis.finishing import write_set
        from warpsmith.synthesis.structure_log import StructureLog

        progress.phase("structures", f"{len(found)} tasks")
        with FilterLog(log) as rows, StructureLog(log.with_suffix(".structures.jsonl")) as structures:
            summary = write_set(
                found, rows, structures, against, out, mix=chosen, count=count, measured_only=measured_only,
                pass_rates=rates,
                sandbox=best_available(), told=lambda done, of: progress.phase("structures", f"{done} of {of}"),
            )  # fmt: skip
    if as_json:
        print(summary.model_dump_json())
    else:
        left = summary.selection
        tainted, alike = sum(left.contaminated.values()), sum(left.duplicates.values())
        print(f"{summary.rows} rows in {out}, {summary.measured} of them measured on a GPU")
        print(f"of {left.offered} that passed, {tainted} were like the benchmark, {alike} like another row, "
              f"{left.over_share} over their share")  # fmt: skip
    return PASSED


@guarded
def from_folder(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Python files: modules with EXAMPLES, or tasks.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="TASKS.jsonl", help="For `synth filter`.")],
    licence: Annotated[str, typer.Option("--licence", help="SPDX identifier of the modules.")] = (
        "LicenseRef-Proprietary"
    ),
    mix_in: Annotated[
        Path | None, typer.Option("--mix-in", metavar="TASKS.jsonl", help="Take tasks of another file too.")
    ] = None,
    share: Annotated[
        float,
        typer.Option(
            "--share", min=0.0, max=0.99, help="Of the result that the other file's tasks are to be."
        ),
    ] = 0.5,
    seed: Annotated[int, typer.Option("--seed", help="Which of the other file's tasks.")] = 0,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Make tasks of your own modules with their example inputs, beside a subset of a set."""
    from warpsmith.cli import wiring
    from warpsmith.cli.progress import reporter

    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder", hint="give a folder of Python files with modules")
    others = read_tasks([mix_in]) if mix_in else []
    wiring.require_judge_extra()
    with contextlib.redirect_stdout(sys.stderr), reporter() as progress:
        from warpsmith.synthesis.composing import ComposeLog
        from warpsmith.synthesis.user_modules import as_it_is, mixed_in, read_folder

        progress.phase("read", str(folder))
        operators, whole = read_folder(folder, licence=licence)
        made: list[ComposedTask] = [as_it_is(op) for op in operators] + whole
        chosen = mixed_in(made, others, share, seed)
        with ComposeLog(out) as log:
            for task in [*made, *chosen]:
                if log.get(task.name) is None:
                    log.append(task)
    said = {"own": len(made), "others": len(chosen), "out": str(out)}
    print(json.dumps(said) if as_json else f"{len(made)} tasks of {folder} and {len(chosen)} others in {out}")
    return PASSED
