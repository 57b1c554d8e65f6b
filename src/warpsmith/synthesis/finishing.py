"""From tasks and what the gates said of them to a folder with the set, its card and its plots."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from warpsmith.store.files import make_folder, write_atomic
from warpsmith.synthesis.card import PLOTS, card, plot
from warpsmith.synthesis.dataset import graded, row_of, write_parquet
from warpsmith.synthesis.filtering import FilterLog, funnel
from warpsmith.synthesis.mixes import Mix
from warpsmith.synthesis.records import ComposedTask, FilterRow, SynthRow
from warpsmith.synthesis.selecting import Selection, select
from warpsmith.synthesis.structure_log import StructureLog
from warpsmith.types import Device, Record, Task
from warpsmith.types.protocols import Sandbox

PARQUET, CARD, SUMMARY = "tasks.parquet", "README.md", "summary.json"


class SetSummary(Record):
    """What was written."""

    rows: int
    measured: int
    selection: Selection
    funnels: dict[str, dict[str, int]]


def write_set(
    tasks: Sequence[ComposedTask],
    log: FilterLog,
    structures: StructureLog,
    benchmark: Sequence[Task],
    out: Path,
    *,
    mix: Mix | None = None,
    count: int | None = None,
    measured_only: bool = False,
    pass_rates: Mapping[str, float] | None = None,
    sandbox: Sandbox | None = None,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> SetSummary:
    """Writes the parquet file, the card, the plots and a summary into the folder `out`.

    A task is in that passed on the CPU and was rejected by no GPU; with `measured_only` it also passed on one.
    `pass_rates` are a policy's by the task's hash, and decide the band where they are known.
    """
    make_folder(out)
    rates = pass_rates or {}
    said = {device: [row for t in tasks if (row := log.find(t, device))] for device in Device}
    by_hash: dict[str, list[FilterRow]] = {}
    for row in [*said[Device.SIM], *said[Device.CUDA]]:
        by_hash.setdefault(row.task_hash, []).append(row)
    passed = [t for t in tasks if _passed(by_hash.get(t.task_hash, []), measured_only)]
    kept, selection = select(
        passed, structures, benchmark, mix=mix, count=count, sandbox=sandbox, told=told,
        band=lambda task: graded(task, by_hash[task.task_hash], rates.get(task.task_hash)),
    )  # fmt: skip
    rows = [
        row_of(task, found.fingerprint, by_hash[task.task_hash], rates.get(task.task_hash))
        for task, found in kept
    ]
    funnels = {device.value: funnel(found) for device, found in said.items() if found}
    write_parquet(rows, out / PARQUET)
    write_atomic(out / CARD, card(rows, selection, funnels))
    plot(rows, out / PLOTS)
    summary = SetSummary(
        rows=len(rows), measured=sum(map(_is_measured, rows)), selection=selection, funnels=funnels
    )
    write_atomic(out / SUMMARY, json.dumps(summary.model_dump(mode="json"), indent=1) + "\n")
    return summary


def _passed(rows: Sequence[FilterRow], measured_only: bool) -> bool:
    if not rows or any(row.rejects for row in rows):
        return False
    return not measured_only or any(row.times for row in rows)


def _is_measured(row: SynthRow) -> bool:
    return row.measured
