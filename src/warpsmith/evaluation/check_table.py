"""Checks in words and tables."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from warpsmith.types import Device, Fitness, Record, TaskCheck, TaskEstimate

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class SetSummary(Record):
    """Counts over a set. `flagged` tasks are among those that are fit."""

    tasks: int
    fit: int
    flagged: int
    unfit: int
    unsupported: int
    infrastructure: int


def set_summary(rows: Sequence[TaskCheck]) -> SetSummary:
    """Counts over `rows`."""
    found = Counter(row.fitness for row in rows)
    return SetSummary(
        tasks=len(rows),
        fit=found[Fitness.FIT],
        flagged=sum(row.fitness is Fitness.FIT and bool(row.flags) for row in rows),
        unfit=found[Fitness.UNFIT],
        unsupported=found[Fitness.UNSUPPORTED],
        infrastructure=found[Fitness.INFRASTRUCTURE],
    )


def title(row: TaskCheck) -> str:
    """Level, problem and name."""
    return f"{row.level}/{row.problem_id} {row.task_name}" if row.level is not None else row.task_name


def headline(row: TaskCheck) -> str:
    """One line: the outcome, and the first reason or what is known of the headroom."""
    if row.problems:
        return f"unfit: {row.problems[0]}"
    if row.fitness is not Fitness.FIT:
        return f"{row.fitness}: {row.notes[0]}" if row.notes else row.fitness.value
    said = f"fit, flagged: {'; '.join(row.flags)}" if row.flags else "fit"
    if row.estimate and row.estimate.headroom is not None:
        said += f" (estimate: {row.estimate.headroom:.3g}× its byte floor)"
    return said


def check_lines(row: TaskCheck) -> Iterator[str]:
    """The lines for one task."""
    yield f"{title(row)}: {row.fitness} for {row.purpose}"
    yield from (f"  problem    {text}" for text in row.problems)
    yield from (f"  flag       {text}" for text in row.flags)
    yield from (f"  note       {text}" for text in row.notes)
    if row.estimate is not None:
        yield from _estimate_lines(row.estimate, row.device)
    if row.machine is not None:
        where = row.machine.gpu or "CPU simulator"
        yield f"  machine    {where}, torch {row.machine.torch}; checked in {row.seconds:.1f} s"


def _estimate_lines(found: TaskEstimate, device: Device) -> Iterator[str]:
    peak = f", peak {size(found.peak_bytes)}" if found.peak_bytes is not None else ""
    yield (
        f"  memory     inputs {size(found.input_bytes)}, weights {size(found.weight_bytes)}, "
        f"outputs {size(found.output_bytes)}{peak}"
    )
    if found.full_size_elements is not None:
        yield f"  full size  {found.full_size_elements:,} elements in inputs, weights and outputs"
    if device is Device.SIM:
        yield "  time       none: the simulator says nothing about speed"
        return
    compiled = "not tried" if found.compile_ms is None else f"{found.compile_ms:.4g} ms"
    eager = "unknown" if found.eager_ms is None else f"{found.eager_ms:.4g} ms"
    yield f"  estimate   eager {eager}, torch.compile {compiled} (a few plain calls, not a measurement)"
    if found.floor_ms is not None:
        head = "" if found.headroom is None else f"; the faster estimate is {found.headroom:.3g}× that"
        yield f"  byte floor {found.floor_ms:.4g} ms{head}"


def set_lines(rows: Sequence[TaskCheck]) -> Iterator[str]:
    """Every task that is not plainly fit, with all its reasons, then counts by level and in all."""
    for row in rows:
        reasons = (*row.problems, *row.flags) or (row.notes if row.fitness is not Fitness.FIT else ())
        if reasons:
            label = "flagged" if row.fitness is Fitness.FIT else row.fitness.value
            yield f"{label:<15} {title(row)}: {'; '.join(reasons)}"
    names = list(SetSummary.model_fields)
    yield "  ".join(["set       ", *(f"{name:>{max(5, len(name))}}" for name in names)])
    for level in sorted({row.level for row in rows if row.level is not None}):
        yield _counts(f"level {level}", [row for row in rows if row.level == level], names)
    yield _counts("all", rows, names)


def _counts(label: str, rows: Sequence[TaskCheck], names: list[str]) -> str:
    found: dict[str, Any] = set_summary(rows).model_dump()
    return "  ".join([f"{label:<10}", *(f"{found[name]:>{max(5, len(name))}}" for name in names)])


def size(count: int) -> str:
    """Bytes for a person: three digits and a binary unit."""
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.3g} {_UNITS[unit]}" if value < 1000 else f"{value:.0f} {_UNITS[unit]}"
