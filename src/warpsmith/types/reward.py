"""What a verdict is worth."""

from warpsmith.types.base import Record


class Reward(Record):
    """`milestone` in {-1, 1, 2, 3} or None (no reward can be given); `raw` is t_compile / t_new or -1."""

    milestone: int | None
    raw: float | None = None
    reason: str = ""
