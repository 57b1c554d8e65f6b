"""Cells of a CSV file."""

from typing import TypeVar

Cell = TypeVar("Cell")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def cell(value: Cell) -> Cell | str:
    """The value; text that a spreadsheet would run as a formula with an apostrophe before it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
