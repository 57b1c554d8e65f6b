"""`warpsmith regrade`: every stored submission of a run judged again with today's judge."""

import contextlib
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from warpsmith.cli.errors import INFRASTRUCTURE, OTHER_VERDICT, PASSED, guarded
from warpsmith.cli.options import DebugOption, JsonOption

RECORDED = "recorded"


@guarded
def regrade(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, as `optimize` writes it.")],
    device: Annotated[
        str,
        typer.Option(
            "--device", metavar="recorded|auto|cuda|sim", help="Where to judge; the run's own device."
        ),
    ] = RECORDED,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.json", help="Also write the comparison here.")
    ] = None,
    rewards_only: Annotated[
        bool, typer.Option("--rewards-only", help="Judge nothing: today's rewards for the stored verdicts.")
    ] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Judge a run's submissions again: exit status 0 if no status (or reward) changed, 1 if some did."""
    from warpsmith.evaluation import regraded_lines, rescore, rescored_lines
    from warpsmith.store import RunReader, write_atomic
    from warpsmith.types import Status

    if rewards_only:
        rows = rescore(RunReader(run))
        lines, broken = rescored_lines(rows), False
    else:
        rows = _judge_again(run, device)
        lines, broken = regraded_lines(rows), any(r.new.status is Status.INFRASTRUCTURE for r in rows)
    changed = sum(row.changed for row in rows)
    answer = {"changed": changed, "rows": [row.summary() for row in rows]}
    if out is not None:
        write_atomic(out, json.dumps(answer, indent=1) + "\n")
    print(json.dumps(answer) if as_json else "\n".join(lines))
    if broken:
        return INFRASTRUCTURE
    return OTHER_VERDICT if changed else PASSED


def _judge_again(run: Path, word: str) -> list:
    from warpsmith import __version__
    from warpsmith.cli import wiring
    from warpsmith.cli.progress import reporter
    from warpsmith.evaluation import Regraded, regrade
    from warpsmith.report import headline
    from warpsmith.store import RunReader, RunStore

    manifest = RunReader(run).manifest  # before the lock is taken: a path that is no run must stay as it is
    device = wiring.device(manifest.device.value if word == RECORDED else word)
    wiring.require_judge_extra()
    # stdout carries the answer alone, whatever a library prints
    with contextlib.redirect_stdout(sys.stderr), reporter() as progress, RunStore(run) as store:
        store.open(manifest.model_copy(update={"versions": {**manifest.versions, "warpsmith": __version__}}))
        bench = wiring.bench(device, progress.phase, ahead=True)

        def told(row: Regraded, done: int, total: int) -> None:
            before = row.old.status.value if row.old else "not judged"
            progress.note(f"{done}/{total} {row.submission_hash[:8]}: {before} → {headline(row.new)}")

        return regrade(store, bench.judge, device, told=told)
