"""How hard a task is expected to be, for sets that are graded."""

from pathlib import Path

from pydantic import Field, ValidationError

from warpsmith.errors import UsageError
from warpsmith.synthesis.records import Band, CostEstimate
from warpsmith.types import Record

_GAIN_STEPS = (1.25, 2.5)
"""Fusion gain below the first promises little, above the second much."""
_PASS_STEPS = (0.5, 0.2, 0.05)
"""Pass rates of a policy above these make a task easy, medium, hard."""
_RATES = 'write lines such as {"task_hash": "…", "pass_rate": 0.25}'


class PassRate(Record):
    """How often a policy solves a task."""

    task_hash: str
    pass_rate: float = Field(ge=0.0, le=1.0)
    policy: str = ""


def read_pass_rates(path: Path) -> dict[str, float]:
    """Rates by the task's hash, of JSON lines of `PassRate`; the last line of a task counts. Raises UsageError."""
    try:
        rows = [PassRate.model_validate_json(line) for line in path.read_text("utf-8").splitlines() if line]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}", hint=_RATES) from error
    except ValidationError as error:
        raise UsageError(f"{path} holds no pass rates", hint=_RATES) from error
    return {row.task_hash: row.pass_rate for row in rows}


def band_of(
    operators: int,
    cost: CostEstimate | None = None,
    *,
    fusion_gain: float | None = None,
    pass_rate: float | None = None,
) -> Band:
    """A known pass rate decides; else the number of operators, products in them, and what fusing promises.

    A point a further operator, a point for products and convolutions (a plain loop is far from the library), a point
    where fusing promises little (beating eager takes more than fusing), one less where it promises much.
    """
    bands = tuple(Band)
    if pass_rate is not None:
        return bands[sum(pass_rate <= step for step in _PASS_STEPS)]
    points = operators - 1
    if cost is not None:
        gain = fusion_gain if fusion_gain is not None else cost.fusion_gain
        points += 1 if cost.flops else 0
        points += (gain < _GAIN_STEPS[0]) - (gain > _GAIN_STEPS[1])
    return bands[min(max(points, 0), len(bands) - 1)]


def bands_of(operators: int) -> frozenset[Band]:
    """The bands that a task of so many operators may be in, whatever its cost."""
    bands = tuple(Band)
    return frozenset(bands[min(max(operators - 1 + more, 0), len(bands) - 1)] for more in (-1, 0, 1, 2))
