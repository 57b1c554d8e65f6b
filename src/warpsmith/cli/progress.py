"""Progress on stderr: a bar with phase, time and what is left on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from warpsmith.types import Device, Phase

_CHECKED = (Phase.COMPILE, Phase.ADMISSION, Phase.LOAD, Phase.CORRECTNESS)
STEPS: dict[Device, tuple[Phase, ...]] = {
    Device.SIM: _CHECKED,
    Device.CUDA: (*_CHECKED, Phase.TIMING, Phase.BASELINE),
}
"""The phases of one judgement, in order."""
_ONCE = frozenset({Phase.BASELINE})
"""Not expected again once seen: baselines are kept."""


class Pace:
    """How far a judgement has come, and what is left of it if it takes as long as the one before."""

    def __init__(self, steps: tuple[str, ...], clock: Callable[[], float] = time.monotonic) -> None:
        self._steps = steps
        self._clock = clock
        self._took: dict[str, float] = {}
        self._now: str | None = None
        self._since = clock()

    def enter(self, phase: str) -> None:
        """The work has come to `phase`; one that is no step of a judgement is between two of them."""
        if phase == self._now:
            return
        if self._now is not None:
            self._took[self._now] = self._clock() - self._since
        self._now = phase if phase in self._steps else None
        self._since = self._clock()

    @property
    def step(self) -> tuple[int, int] | None:
        """Number of the step under way, from 1, and how many there are; None between judgements."""
        return None if self._now is None else (self._steps.index(self._now) + 1, len(self._steps))

    def left_s(self) -> float | None:
        """Seconds left of this judgement; None where no earlier one tells, or this one takes longer."""
        if self._now is None or self._now not in self._took:
            return None
        spent = self._clock() - self._since
        if spent > self._took[self._now]:
            return None
        after = [step for step in self._steps[self._steps.index(self._now) + 1 :] if step not in _ONCE]
        return self._took[self._now] - spent + sum(self._took.get(step, 0.0) for step in after)

    def __str__(self) -> str:
        """`3 of 4, about 12 s left`, as much of it as is known."""
        if self.step is None:
            return ""
        left = self.left_s()
        return f"{self.step[0]} of {self.step[1]}" + (
            f", about {left:.0f} s left" if left is not None else ""
        )


class Reporter(Protocol):
    """What a command tells a person while it works."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def phase(self, phase: str, detail: str = "") -> None:
        """The work has come to `phase`; replaces the phase shown before."""
        ...

    def note(self, text: str) -> None:
        """A line that stays, said between judgements."""
        ...


def reporter(device: Device | None = None) -> Reporter:
    """The reporter that fits stderr; with `device`, it tells how far a judgement there has come."""
    pace = Pace(STEPS[device] if device else ())
    return TerminalReporter(pace) if sys.stderr.isatty() else LineReporter(pace)


class LineReporter:
    """One line for each change of phase and each note, with seconds since the start."""

    def __init__(self, pace: Pace) -> None:
        self._start = time.monotonic()
        self._pace = pace
        self._last = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def phase(self, phase: str, detail: str = "") -> None:
        # details change with every call; a log keeps only the changes of phase
        if phase != self._last:
            self._last = phase
            self._pace.enter(phase)
            said = f"{phase}: {detail}" if detail else phase
            self._print(f"{said} ({self._pace})" if self._pace.step else said)

    def note(self, text: str) -> None:
        self._pace.enter("")
        self._print(text)

    def _print(self, text: str) -> None:
        print(f"[{time.monotonic() - self._start:6.1f} s] {text}", file=sys.stderr, flush=True)


class TerminalReporter:
    """A line that rich redraws: the judgement's bar, phase, time and what is left; notes scroll above it."""

    def __init__(self, pace: Pace) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, RenderableColumn, TextColumn, TimeElapsedColumn

        self._pace = pace
        self._progress = Progress(
            BarColumn(bar_width=12),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            RenderableColumn(_Redrawn(pace)),
            console=Console(stderr=True),
            transient=True,
        )
        # without a total the bar moves to and fro
        self._task = self._progress.add_task("starting", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def phase(self, phase: str, detail: str = "") -> None:
        self._pace.enter(phase)
        step, steps = self._pace.step or (1, None)
        said = f"{phase}: {detail}" if detail else phase
        self._progress.update(self._task, description=said, completed=step - 1, total=steps)

    def note(self, text: str) -> None:
        self._pace.enter("")
        self._progress.console.print(text, markup=False, highlight=False)


class _Redrawn:
    """The pace in words, anew each time that rich draws."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace

    def __rich__(self) -> str:
        return str(self._pace)
