"""A set as parquet: the published columns `ops`, `data_source`, `code` first, ours after them."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from warpsmith.errors import MissingExtraError, TaskUnreadableError
from warpsmith.store.files import refused
from warpsmith.synthesis.bands import band_of
from warpsmith.synthesis.records import (
    Band,
    ComposedTask,
    CostEstimate,
    FilterRow,
    GpuTimes,
    Provenance,
    Split,
    SynthRow,
)
from warpsmith.tasks.parquet import read_parquet

VALIDATION_SHARE = 0.05


def row_of(
    task: ComposedTask,
    fingerprint: str,
    measured: Iterable[FilterRow] = (),
    pass_rate: float | None = None,
) -> SynthRow:
    """The row of a task; `measured` are what the gates said of it."""
    rows = list(measured)
    times = tuple(row.times for row in rows if row.times is not None)
    cost = task.cost or next((row.cost for row in rows if row.cost is not None), None)
    gains = [t.fusion_gain for t in times if t.fusion_gain is not None]
    gain = gains[0] if gains else (cost.fusion_gain if cost else None)
    return SynthRow(
        ops=task.ops, data_source=task.data_source, code=task.code, name=task.name, provenance=task.provenance,
        cost=cost, times=times, fusion_gain=gain, pass_rate=pass_rate, band=graded(task, rows, pass_rate),
        fingerprint=fingerprint, split=split_of(fingerprint),
    )  # fmt: skip


def graded(task: ComposedTask, measured: Iterable[FilterRow] = (), pass_rate: float | None = None) -> Band:
    """The task's band, by what was measured where it was."""
    rows = list(measured)
    cost = task.cost or next((row.cost for row in rows if row.cost is not None), None)
    gains = [row.times.fusion_gain for row in rows if row.times and row.times.fusion_gain is not None]
    return band_of(len(task.ops), cost, fusion_gain=gains[0] if gains else None, pass_rate=pass_rate)


def split_of(fingerprint: str) -> Split:
    """By the structure's hash alone: rows of one structure are never in two splits, in whichever set they are."""
    place = int(fingerprint.rpartition("-")[2][:8], 16) / 16**8
    return Split.VALIDATION if place < VALIDATION_SHARE else Split.TRAIN


def write_parquet(rows: Sequence[SynthRow], path: Path) -> None:
    """Writes the set. The same rows give the same bytes. Raises InfrastructureError, MissingExtraError."""
    arrow, parquet = _arrow()
    table = arrow.Table.from_pylist([_flat(row) for row in rows], schema=_schema(arrow))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(table, path, compression="zstd")
    except OSError as error:
        raise refused("write", path, error) from error


def read_set(path: Path) -> list[SynthRow]:
    """The rows of a set that `write_parquet` wrote. Raises TaskUnreadableError for another file."""
    arrow, _ = _arrow()
    try:
        return [_row(flat) for flat in read_parquet(path, _schema(arrow).names)]
    except (KeyError, ValueError, TypeError) as error:
        raise TaskUnreadableError(
            f"{path} is no set of this form: {error}", hint="write one with: warpsmith synth write"
        ) from error


_COST = tuple(CostEstimate.model_fields)
_TIMES = tuple(GpuTimes.model_fields)
_PROVENANCE = tuple(Provenance.model_fields)


def _flat(row: SynthRow) -> dict[str, Any]:
    cost = row.cost.model_dump() if row.cost else {}
    return {
        "ops": list(row.ops), "data_source": row.data_source, "code": row.code, "name": row.name,
        "task_hash": row.task_hash, "band": row.band.value, "split": row.split.value, "measured": row.measured,
        "fusion_gain": row.fusion_gain, "pass_rate": row.pass_rate, "fingerprint": row.fingerprint,
        "times": [t.model_dump() for t in row.times], "provenance": row.provenance.model_dump(mode="json"),
        **{f"estimated_{name}": cost.get(name) for name in _COST},
    }  # fmt: skip


def _row(flat: dict[str, Any]) -> SynthRow:
    cost = {name: flat[f"estimated_{name}"] for name in _COST}
    return SynthRow(
        ops=flat["ops"], data_source=flat["data_source"], code=flat["code"], name=flat["name"],
        provenance=flat["provenance"], times=flat["times"], fusion_gain=flat["fusion_gain"],
        pass_rate=flat["pass_rate"], band=flat["band"],
        fingerprint=flat["fingerprint"], split=flat["split"],
        cost=None if cost["gpu"] is None else CostEstimate(**cost),
    )  # fmt: skip


def _schema(arrow: Any) -> Any:
    text, number, whole = arrow.string(), arrow.float64(), arrow.int64()
    texts = arrow.list_(text)
    kinds = {"gpu": text, "torch": text, "peak_bytes": whole, "flops": whole}
    times = arrow.struct([(name, kinds.get(name, number)) for name in _TIMES])
    provenance = arrow.struct(
        [
            (name, {"libraries": texts, "licences": texts, "seed": whole}.get(name, text))
            for name in _PROVENANCE
        ]
    )
    return arrow.schema([
        ("ops", texts), ("data_source", text), ("code", text), ("name", text), ("task_hash", text), ("band", text),
        ("split", text), ("measured", arrow.bool_()), ("fusion_gain", number), ("pass_rate", number),
        ("fingerprint", text),
        ("times", arrow.list_(times)), ("provenance", provenance),
        *((f"estimated_{name}", kinds.get(name, number)) for name in _COST),
    ])  # fmt: skip


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError(
            "parquet files need pyarrow", hint="install it with: pip install 'warpsmith[synth]'"
        ) from error
    return pyarrow, pyarrow.parquet
