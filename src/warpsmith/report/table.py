"""A table as text in cells: what the page and the Markdown file both show."""

from dataclasses import dataclass, field

from warpsmith.reward import SpeedupKind

NONE = "–"
"""Not measured."""
KINDS = (SpeedupKind.PAPER, SpeedupKind.MATCHED)
"""Protocols, in the order of the tables."""


@dataclass(frozen=True)
class Line:
    """A line of a table; `published` ones are not ours."""

    cells: tuple[str, ...]
    published: bool = False


@dataclass(frozen=True)
class Table:
    """A titled table whose first `words` columns are text and the others figures."""

    key: str
    title: str
    heads: tuple[str, ...]
    lines: tuple[Line, ...]
    words: int
    note: str = ""
    wrapped: frozenset[int] = field(default_factory=frozenset)
    """Columns of long text, wherever they stand."""

    def is_text(self, column: int) -> bool:
        """Whether a column holds text, not figures."""
        return column < self.words or column in self.wrapped
