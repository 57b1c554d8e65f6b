"""The card of a set: what is in it, where it came from, under which licences, what was left out and why."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from warpsmith.errors import MissingExtraError
from warpsmith.synthesis.records import Band, Split, SynthRow
from warpsmith.synthesis.selecting import Selection

PLOTS = "plots.png"
_HEAD = """---
license: apache-2.0
task_categories: [text-generation]
tags: [cuda, pytorch, code]
size_categories: [{size}]
configs:
- config_name: default
  data_files: tasks.parquet
---

# Synthesized operator tasks

{count} tasks in KernelBench's form (`Model`, `get_inputs`, `get_init_inputs`), made by `warpsmith synth`. Each was
run in eager at small sizes and admitted: it is deterministic, every input and parameter matters, outputs of different
inputs can be told apart, zeros and a copied input fail. No two rows have one structure, and none repeats a task of
the benchmark that it was compared with.

{measured} rows were also run at full size ({gpus}); the others carry estimates, and their `measured` is false.

## Columns

`ops`, `data_source` and `code` are the published schema. Ours: `name`, `task_hash`, `band`, `split`, `measured`,
`fusion_gain` (eager over compile where measured, else estimated), `fingerprint` (the structure, without sizes and
names), `times` by GPU, `provenance`, and `estimated_…` of the cost model.

## Licences

The tasks' own text is generated and under Apache-2.0. A row whose `provenance.origin` is `block` holds source of the
library that its `provenance` names, under that library's licence; rows of `user` are the user's.
"""


def card(
    rows: Sequence[SynthRow], selection: Selection | None, funnels: Mapping[str, Mapping[str, int]]
) -> str:
    """Markdown with the front matter that dataset hubs read. `funnels` are the filter's counts by device."""
    gpus = sorted({times.gpu for row in rows for times in row.times})
    operators = Counter(op for row in rows for op in row.ops)
    lines = [
        _HEAD.format(
            size=_size(len(rows)), count=len(rows), measured=sum(row.measured for row in rows),
            gpus=", ".join(gpus) or "no GPU yet", 
        ),
        *_table("licence", Counter(licence for row in rows for licence in row.provenance.licences)), "",
        "## What is in it", "",
        *_table("source", Counter(row.data_source for row in rows)), "",
        *_table("origin", Counter(row.provenance.origin.value for row in rows)), "",
        *_table("band", {band.value: sum(row.band is band for row in rows) for band in Band}), "",
        *_table("split", {split.value: sum(row.split is split for row in rows) for split in Split}), "",
        f"{len(operators)} operators; the most frequent:", "",
        *_table("operator", dict(operators.most_common(20))), "",
        f"![times, gains, operators, bands]({PLOTS})", "",
        "## What was left out", "",
    ]  # fmt: skip
    for device, counts in funnels.items():
        lines += [f"On {device}, by the first reason:", "", *_table("outcome", counts), ""]
    if selection is not None:
        lines += [
            f"Of {selection.offered} that passed, {sum(selection.contaminated.values())} repeated a task of the "
            f"benchmark, {sum(selection.duplicates.values())} another row, and {selection.over_share} were more of "
            "their kind than the mix has room for.",
            "",
        ]
        if selection.lacking:
            told = ", ".join(f"{count} of {kind}" for kind, count in selection.lacking.items())
            lines += [f"Too few were found of some kinds; others stand in for them: {told}.", ""]
    return "\n".join(lines)


def _table(head: str, counts: Mapping[str, int]) -> list[str]:
    return [f"| {head} | tasks |", "|---|---|", *(f"| {name} | {count} |" for name, count in counts.items())]


def _size(count: int) -> str:
    for limit, name in ((1000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K")):
        if count < limit:
            return name
    return "100K<n<1M"


def plot(rows: Sequence[SynthRow], path: Path) -> None:
    """Four plots in one picture. Raises MissingExtraError without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("plots need matplotlib", hint="pip install 'warpsmith[synth]'") from error
    figure = Figure(figsize=(11, 8), layout="constrained")
    (times, gains), (operators, bands) = figure.subplots(2, 2)
    _histogram(
        times, rows, "eager ms", lambda r: r.times[0].eager_ms if r.times else r.cost and r.cost.eager_ms
    )
    _histogram(gains, rows, "fusion gain", lambda r: r.fusion_gain)
    counted = Counter(op.rpartition(".")[2] for row in rows for op in row.ops).most_common(25)
    operators.barh([name for name, _ in reversed(counted)], [count for _, count in reversed(counted)])
    operators.set_xlabel("rows")
    operators.tick_params(axis="y", labelsize=7)
    by_band = [sum(row.band is band for row in rows) for band in Band]
    bands.bar([band.value for band in Band], by_band)
    bands.set_ylabel("rows")
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _histogram(
    axes: Any, rows: Sequence[SynthRow], label: str, value: Callable[[SynthRow], float | None]
) -> None:
    """On a logarithmic axis, measured rows apart from estimates."""
    import math

    for measured, name in ((True, "measured"), (False, "estimated")):
        found = [v for row in rows if row.measured is measured and (v := value(row))]
        if found:
            axes.hist([math.log10(v) for v in found], bins=40, alpha=0.6, label=name)
    axes.set_xlabel(f"log10 of {label}")
    axes.set_ylabel("rows")
    axes.legend()
