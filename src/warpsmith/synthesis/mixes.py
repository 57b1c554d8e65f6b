"""Mixes: how many tasks of which kind and size a set should hold. Configuration, as TOML of a user's own too."""

import tomllib
from pathlib import Path

from pydantic import Field, ValidationError

from warpsmith.errors import UsageError
from warpsmith.synthesis.records import Band, CostEstimate, Family
from warpsmith.types import Record

GIB = 1024**3


class Mix(Record):
    """Shares need not add up to one: they are scaled."""

    name: str
    operators: dict[int, float]
    """Share by number of torch operators; of those that can reach a band, where there are bands."""
    blocks: float = 0.0
    """Share of stand-alone operators of model libraries."""
    gpu: str = "H200"
    drawn_ms: tuple[float, float] = (1.6, 45.0)
    """Bounds of the estimated eager time, drawn evenly on a logarithmic scale: it may be out by a factor."""
    headroom: float = 1.0
    """Least estimated eager time over the floor of bytes; a task that leaves nothing to gain teaches nothing."""
    peak_bytes: int = 24 * GIB
    input_bytes: int = 8 * GIB
    bands: dict[Band, float] = Field(default_factory=dict)
    """Share by difficulty band; empty: as it comes."""
    families: dict[Family, float] = Field(default_factory=dict)
    """How often a family is drawn, 1 where nothing is said."""

    def holds(self, cost: CostEstimate, input_bytes: int) -> bool:
        """Whether a task of this cost is within the bounds of memory and headroom."""
        within = cost.peak_bytes <= self.peak_bytes and input_bytes <= self.input_bytes
        return within and cost.headroom >= self.headroom


PAPER = Mix(
    name="paper",
    operators={1: 0.034, 2: 0.838, 3: 0.076, 4: 0.028, 5: 0.012},
    blocks=0.012,
)
"""The composition of the published set: one to five torch operators, and 1.2 % of transformers."""
GRADED = Mix(
    name="graded",
    operators={1: 0.15, 2: 0.3, 3: 0.25, 4: 0.18, 5: 0.12},
    headroom=1.25,
    bands={Band.EASY: 0.3, Band.MEDIUM: 0.3, Band.HARD: 0.25, Band.EXPERT: 0.15},
)
"""As many easy tasks as a small model needs to see a reward at all, and harder ones above them."""
MIXES = {mix.name: mix for mix in (PAPER, GRADED)}


def load_mix(spec: str) -> Mix:
    """A mix by name, or from a TOML file. Raises UsageError."""
    if spec in MIXES:
        return MIXES[spec]
    path = Path(spec)
    if not path.is_file():
        raise UsageError(f"no mix {spec!r}", hint=f"name one of {', '.join(MIXES)}, or give a TOML file")
    try:
        return Mix.model_validate(tomllib.loads(path.read_text("utf-8")))
    except (ValidationError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        first = str(error).splitlines()[0]
        raise UsageError(f"{path} is no mix: {first}", hint="see docs/synthesis.md") from error
