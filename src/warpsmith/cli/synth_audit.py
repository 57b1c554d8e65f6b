"""`warpsmith synth audit`: what is wrong with anybody's set of tasks."""

import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsmith.cli.errors import OTHER_VERDICT, PASSED, guarded
from warpsmith.cli.options import DebugOption, JsonOption
from warpsmith.errors import InfrastructureError, UsageError

if TYPE_CHECKING:
    from warpsmith.types.protocols import Sandbox


@guarded
def audit(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Parquet or JSON lines with ops, data_source and code.")
    ],
    against: Annotated[
        Path | None,
        typer.Option(
            "--against", metavar="PATH", help="A KernelBench clone or its JSON lines: no row may repeat it."
        ),
    ] = None,
    run: Annotated[
        bool,
        typer.Option("--run", help="Also run every row on the CPU, at smaller sizes where it states them."),
    ] = False,
    log: Annotated[
        Path | None,
        typer.Option("--log", metavar="FILE.jsonl", help="Keep what is traced, and go on from there."),
    ] = None,
    workers: Annotated[int, typer.Option("--workers", help="Processes that trace rows.")] = 1,
    unsafe_local: Annotated[
        bool, typer.Option("--unsafe-local", help="Run the rows' code with no isolation where there is none.")
    ] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Find duplicates, wrong labels, repeated benchmark tasks and unfit rows: exit status 0 if none, 1 if some."""
    from warpsmith.cli import wiring
    from warpsmith.cli.progress import reporter
    from warpsmith.synthesis.audit import audit as look
    from warpsmith.synthesis.audit import audit_lines
    from warpsmith.synthesis.decontaminate import benchmark
    from warpsmith.synthesis.published import read_rows
    from warpsmith.synthesis.structure_log import StructureLog

    if workers < 1:
        raise UsageError(f"--workers {workers} is too few", hint="give 1 or more")
    rows = read_rows(file)
    wiring.require_judge_extra()
    # stdout carries the answer alone, whatever a library prints
    with contextlib.ExitStack() as kept:
        kept.enter_context(contextlib.redirect_stdout(sys.stderr))
        progress = kept.enter_context(reporter())
        traced = kept.enter_context(StructureLog(log)) if log else None
        sandbox = _sandbox(unsafe_local)
        progress.note(f"{len(rows)} rows; their code runs isolated by {sandbox.name}")
        known = []
        if against is not None:
            progress.phase("trace the benchmark", str(against))
            known = benchmark(against, sandbox=sandbox, workers=workers, log=traced)

        def told(done: int, total: int) -> None:
            progress.phase("trace rows", f"{done} of {total}")

        result = look(rows, known, run=run, sandbox=sandbox, workers=workers, log=traced, told=told)
    summary = {"file": str(file), "clean": result.clean, "counts": result.counts}
    if as_json:
        print(json.dumps({**summary, **result.model_dump(mode="json")}))
    else:
        print("\n".join(audit_lines(result)))
    return PASSED if result.clean else OTHER_VERDICT


def _sandbox(unsafe_local: bool) -> "Sandbox":
    """The best sandbox here. Raises InfrastructureError where nothing isolates and that was not accepted."""
    from warpsmith.sandbox import LocalSandbox, best_available

    found = best_available()
    if isinstance(found, LocalSandbox) and not unsafe_local:
        raise InfrastructureError(
            "nothing here isolates the code of the rows",
            hint="see warpsmith doctor, or accept the danger with --unsafe-local",
        )
    return found
