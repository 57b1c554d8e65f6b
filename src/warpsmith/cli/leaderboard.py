"""`warpsmith leaderboard`: a file of runs that a regrade confirms."""

import contextlib
import json
import secrets
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsmith.cli.errors import OTHER_VERDICT, PASSED, guarded
from warpsmith.cli.options import DebugOption, JsonOption
from warpsmith.errors import UsageError

if TYPE_CHECKING:
    from warpsmith.evaluation.confirmation import Confirmation
    from warpsmith.store import RunReader

app = typer.Typer(name="leaderboard", help="Runs that a regrade confirms.", rich_markup_mode=None)
FileOption = Annotated[Path, typer.Option("--file", metavar="FILE.json", help="The leaderboard.")]


@app.command("add")
@guarded
def add(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A finished run folder.")],
    file: FileOption = Path("leaderboard.json"),
    name: Annotated[str, typer.Option("--name", help="What its line is called.")] = "",
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Trust no regrade that lies in the folder: judge everything again now."),
    ] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Judge a run's best submissions again and add it if that confirms it; exit status 1 if not."""
    from warpsmith.evaluation.leaderboard import read_board, refuse_unfit, with_run, write_board
    from warpsmith.store import RunReader

    board, reader = read_board(file), RunReader(run)
    refuse_unfit(board, reader, name)
    found = _regraded(run, reader, fresh=fresh)
    if not found.confirmed:
        print("\n".join(f"warpsmith: not confirmed: {text}" for text in found.problems), file=sys.stderr)
        if as_json:
            print(json.dumps({"confirmed": False, "problems": list(found.problems)}))
        return OTHER_VERDICT
    now = datetime.now(UTC).isoformat(timespec="seconds")
    board = with_run(board, reader, found, added_at=now, name=name)
    write_board(file, board)
    entry = board.entries[-1]
    if as_json:
        print(json.dumps({"confirmed": True, "problems": [], "entry": entry.model_dump(mode="json")}))
    else:
        print(f"{entry.name} stands on {file}; regrade {entry.regrade_hash[:12]} by judge {entry.judge[:12]}")
    return PASSED


@app.command("show")
@guarded
def show(
    file: FileOption = Path("leaderboard.json"), as_json: JsonOption = False, debug: DebugOption = False
) -> int:
    """Print a leaderboard."""
    from warpsmith.evaluation.leaderboard import board_lines, read_board

    board = read_board(file)
    if board is None:
        raise UsageError(f"{file} does not exist", hint="begin it with warpsmith leaderboard add RUN")
    print(board.model_dump_json() if as_json else "\n".join(board_lines(board)))
    return PASSED


def _regraded(run: Path, reader: "RunReader", *, fresh: bool) -> "Confirmation":
    """Judges again what was not yet, unless something speaks against the run already."""
    from warpsmith import __version__
    from warpsmith.cli import wiring
    from warpsmith.cli.progress import reporter
    from warpsmith.evaluation import Regraded, regrade
    from warpsmith.evaluation.confirmation import confirm, questions, standing
    from warpsmith.evaluation.regrading import judge_fingerprint
    from warpsmith.report import headline
    from warpsmith.store import RunStore

    if standing(reader):
        return confirm(reader)
    manifest = reader.manifest
    version = judge_fingerprint() + (f" fresh {secrets.token_hex(8)}" if fresh else "")
    device = wiring.device(manifest.device.value)
    wiring.require_judge_extra()
    # stdout carries the answer alone, whatever a library prints
    with contextlib.redirect_stdout(sys.stderr), reporter() as progress, RunStore(run) as store:
        store.open(manifest.model_copy(update={"versions": {**manifest.versions, "warpsmith": __version__}}))
        bench = wiring.bench(device, progress.phase, ahead=True)

        def told(row: Regraded, done: int, total: int) -> None:
            progress.note(f"{done}/{total} {row.task_name}: {headline(row.new)}")

        asked = questions(store)
        if asked:
            regrade(store, bench.judge, device, judge_version=version, only=asked, told=told)
        return confirm(store, device=device, judge_version=version)
