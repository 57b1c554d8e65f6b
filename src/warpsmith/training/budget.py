"""How long a stage may run before it stops of itself, to be gone on with by the same command.

For machines that are lent for minutes: a trainer begins no step that would not end in time and saves what it has, and
what plays begins no further reply; episodes under way are gone on with from the tokens that were drawn.
"""

import time
from collections.abc import Sequence
from typing import Self

from warpsmith.errors import InfrastructureError
from warpsmith.training.token_llm import Generate, Generated
from warpsmith.types import Record

_SPARE = 1.2
"""A step may take so much longer than the longest so far."""


class BudgetSpentError(InfrastructureError):
    """An episode is left as it is until the same command is given again."""


class Budget(Record):
    """`ends_at`: seconds since the epoch, since it crosses to the processes that train; None: no end."""

    ends_at: float | None = None

    @classmethod
    def of(cls, seconds: float | None) -> Self:
        """From now on so many seconds."""
        return cls(ends_at=None if seconds is None else time.time() + seconds)

    def spent(self, reserve_s: float = 0.0) -> bool:
        """Whether less than `reserve_s` seconds are left."""
        return self.ends_at is not None and time.time() + reserve_s >= self.ends_at

    def fits(self, steps_s: Sequence[float]) -> bool:
        """Whether another step may be begun, by what those of this process took."""
        return not self.spent(_SPARE * max(steps_s, default=0.0))

    def guard(self, generate: Generate) -> Generate:
        """`generate`, which raises BudgetSpentError once it is spent."""

        def guarded(prompt: Sequence[int], most: int, temperature: float) -> Generated:
            if self.spent():
                raise BudgetSpentError("the stage's time is up", hint="give the same command again")
            return generate(prompt, most, temperature)

        return guarded if self.ends_at is not None else generate


NO_BUDGET = Budget()
