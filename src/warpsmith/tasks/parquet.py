"""Rows of task sets: parquet files and data sets of the Hugging Face hub. Their libraries come with an extra."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warpsmith.errors import MissingExtraError, TaskUnreadableError

EXTRA = "pip install 'warpsmith[sets]'"
_HUB_HINT = "download the set where there is a network, and give its path"


def read_parquet(path: Path, columns: Sequence[str], also: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The rows of a parquet file, `columns` of them and those of `also` that it has.

    Raises MissingExtraError without pyarrow, TaskUnreadableError where the file cannot be read or lacks a column.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("reading parquet needs pyarrow", hint=EXTRA) from None
    try:
        present = pyarrow.parquet.read_schema(path).names
        if missing := [column for column in columns if column not in present]:
            raise TaskUnreadableError(
                f"{path} has no column {', '.join(missing)}", hint=f"its columns: {', '.join(present)}"
            )
        wanted = dict.fromkeys([*columns, *(column for column in also if column in present)])
        return pyarrow.parquet.read_table(path, columns=list(wanted)).to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        said = " ".join(str(error).split())[:200]
        raise TaskUnreadableError(f"cannot read {path} as parquet: {said}", hint="check the path") from error


def read_hub(name: str, revision: str | None, columns: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of all splits of a data set on the hub, at a revision (its newest without one).

    Raises MissingExtraError without the datasets library, TaskUnreadableError where the hub gives no such set.
    """
    try:
        import datasets
    except ImportError:
        raise MissingExtraError("the hub needs the datasets library", hint=EXTRA) from None
    try:
        splits = datasets.load_dataset(name, revision=revision)
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        raise TaskUnreadableError(
            f"the hub gave no {name}: {type(error).__name__}: {said}", hint=_HUB_HINT
        ) from error
    rows = [row for split in splits.values() for row in split]
    if missing := [column for column in columns if rows and column not in rows[0]]:
        raise TaskUnreadableError(f"{name} has no column {', '.join(missing)}", hint=_HUB_HINT)
    return [{column: row[column] for column in columns} for row in rows]
