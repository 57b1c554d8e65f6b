"""A leaderboard file: figures of runs over one task set, under one condition, each confirmed by a regrade.

What a line shows was found by the regrade, not claimed by the run: who reruns until the noise is kind gains nothing.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

from warpsmith.errors import InfrastructureError, UsageError
from warpsmith.evaluation.confirmation import Confirmation, run_hash
from warpsmith.evaluation.metrics import summary
from warpsmith.evaluation.protocols import PROTOCOLS
from warpsmith.evaluation.row import Condition, Row
from warpsmith.evaluation.rows import rows_of, series_name
from warpsmith.reward import SpeedupKind
from warpsmith.store import RunReader, write_atomic
from warpsmith.store.files import make_folder, refused
from warpsmith.types import Record, sha256_hex


class Figures(Record):
    """The published table's columns; None: not measured."""

    pass_pct: float
    faster_eager_pct: float | None
    faster_compile_pct: float | None
    geomean_eager: float | None
    geomean_compile: float | None


class Entry(Record):
    """One confirmed run."""

    name: str
    policy: str
    variant: str
    run_hash: str
    judge: str
    """Fingerprint of the judge that confirmed it."""
    regrade_hash: str
    """Over that judge's key and verdicts."""
    commit: str | None
    """Of the code that the run was started with."""
    versions: tuple[str, ...]
    added_at: str
    claimed: dict[SpeedupKind, Figures]
    found: dict[SpeedupKind, Figures]


class Board(Record):
    """Entries that may stand beside each other, because they are all of this."""

    schema_version: int = 1
    task_set: str
    """Hash over the tasks' code, names and samples."""
    tasks: int
    condition: Condition
    entries: tuple[Entry, ...] = ()


def read_board(path: Path) -> Board | None:
    """The board in a file; None where there is no file. Raises InfrastructureError where it holds something else."""
    try:
        return Board.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise refused("read", path, error) from error
    except ValidationError as error:
        raise InfrastructureError(f"{path} is not a leaderboard", hint="choose another file") from error


def write_board(path: Path, board: Board) -> None:
    """Writes the file whole or not at all."""
    make_folder(path.parent)
    write_atomic(path, board.model_dump_json(indent=1) + "\n")


def refuse_unfit(board: Board | None, run: RunReader, name: str = "") -> None:
    """UsageError where a run is of other tasks or conditions than the board, or stands there already.

    Told from the run alone, before anything is judged again.
    """
    rows = rows_of(run)
    conditions = [row.condition for row in rows if row.condition]
    if board is None or not conditions:
        return
    there, here = board.condition, conditions[0]
    for what, same in (
        ("tasks or samples", board.task_set == task_set(rows)),
        (f"GPU: {there.gpu}, not {here.gpu}", there.gpu == here.gpu),
        (f"rules: {there.rules}, not {here.rules}", there.rules is here.rules),
        (
            f"baselines: {there.baselines or 'unknown'}, not {here.baselines or 'unknown'}",
            there.baselines == here.baselines,
        ),
        (f"protocol: {_named(there)}, not {_named(here)}", there.protocol == here.protocol),
    ):
        if not same:
            raise UsageError(
                f"the leaderboard is of other {what}", hint="give it a file of its own with --file"
            )
    if any(run_hash(run) == old.run_hash for old in board.entries):
        raise UsageError(
            f"{run.path} stands on this leaderboard already", hint="see warpsmith leaderboard show"
        )
    line = name or series_name(run)
    if any(line == old.name for old in board.entries):
        raise UsageError(f"the leaderboard has a {line!r} already", hint="choose another --name")


def with_run(
    board: Board | None, run: RunReader, found: Confirmation, *, added_at: str, name: str = ""
) -> Board:
    """The board with this run on it, a new one where there was none.

    Raises UsageError where the regrade does not confirm the run, and as `refuse_unfit` does.
    """
    if not found.confirmed or found.run_hash != run_hash(run):
        why = found.problems[0] if found.problems else "the regrade is of another run"
        raise UsageError(
            f"{run.path} is not confirmed by its regrade: {why}",
            hint="docs/report.md says what confirming means",
        )
    refuse_unfit(board, run, name)
    if board is None:
        tasks = len({row.task_key for row in found.claimed})
        condition = next(row.condition for row in found.claimed if row.condition)
        board = Board(task_set=task_set(found.claimed), tasks=tasks, condition=condition)
    entry = _entry(run, found, name, added_at)
    return board.model_copy(update={"entries": (*board.entries, entry)})


def task_set(rows: Sequence[Row]) -> str:
    """Identity of what was worked on."""
    return sha256_hex("\n".join(sorted(f"{row.task_hash} {row.task_name} {row.sample}" for row in rows)))


def board_lines(board: Board) -> Iterator[str]:
    """The board as a Markdown table, best first: by the share faster than compile, then by the geometric mean."""
    named = board.condition.protocol or "no protocol named"
    where = f"{board.condition.gpu}, {board.condition.rules} rules, {named}"
    yield f"{board.tasks} tasks, {where}; as found by the regrade"
    yield ""
    yield "| run | over | pass % | > eager % | > compile % | × eager | × compile | judge | regrade |"
    yield "|---|---|---:|---:|---:|---:|---:|---|---|"
    followed = PROTOCOLS.get(board.condition.protocol)
    kind = followed.speedup if followed else SpeedupKind.PAPER
    for entry in sorted(board.entries, key=lambda e: _rank(e.found[kind]), reverse=True):
        for over, figures in entry.found.items():
            cells = ("–" if v is None else f"{v:.4g}" for v in figures.model_dump().values())
            marks = (entry.judge[:8], entry.regrade_hash[:8])
            yield f"| {_plain(entry.name)} | {over.value} | {' | '.join((*cells, *marks))} |"


def _rank(figures: Figures) -> tuple[float, float, float]:
    return figures.faster_compile_pct or 0.0, figures.geomean_compile or 0.0, figures.pass_pct


def _entry(run: RunReader, found: Confirmation, name: str, added_at: str) -> Entry:
    manifest = run.manifest
    return Entry(
        name=name or series_name(run),
        policy=manifest.policy,
        variant=manifest.variant,
        run_hash=found.run_hash,
        judge=found.judge,
        regrade_hash=found.regrade_hash,
        commit=manifest.pins.commit if manifest.pins else None,
        versions=tuple(dict.fromkeys(row.versions for row in found.claimed if row.versions)),
        added_at=added_at,
        claimed={kind: _figures(found.claimed, kind) for kind in SpeedupKind},
        found={kind: _figures(found.found, kind) for kind in SpeedupKind},
    )


def _named(condition: Condition) -> str:
    return condition.protocol or "none named"


def _figures(rows: Sequence[Row], kind: SpeedupKind) -> Figures:
    got = summary(rows, kind, resamples=0)
    faster = [side.faster and 100 * side.faster.value for side in (got.eager, got.compile)]
    means = [side.geomean and side.geomean.value for side in (got.eager, got.compile)]
    return Figures(
        pass_pct=100 * got.passed.value,
        faster_eager_pct=faster[0],
        faster_compile_pct=faster[1],
        geomean_eager=means[0],
        geomean_compile=means[1],
    )


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
