"""What a person sees of a run over a task set: an estimate first, then every episode, and the figures so far."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import typer

from warpsmith.errors import UsageError

if TYPE_CHECKING:
    from warpsmith.evaluation.bench import Estimate, Question
    from warpsmith.evaluation.tally import Tally
    from warpsmith.reward import SpeedupKind
    from warpsmith.store import RunStore
    from warpsmith.types import Episode

ASK_S = 600.0
"""A person is asked before a start that is expected to take longer, or to cost anything."""


def board(kind: "SpeedupKind", *, yes: bool, capped: bool) -> "Board":
    """The one that fits stderr. `yes`: never ask; `capped`: a cost budget was given."""
    return (TerminalBoard if sys.stderr.isatty() else Board)(kind, yes=yes, capped=capped)


class Board:
    """A line for each thing that happens, with seconds since the start."""

    def __init__(self, kind: "SpeedupKind", *, yes: bool, capped: bool):
        self.tally: Tally
        self.total = 0
        self._kind, self._yes, self._capped = kind, yes, capped
        self._lost = 0
        self._began = time.monotonic()
        self._before = 0
        """Episodes of earlier starts."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is held."""

    def begins(self, store: "RunStore", left: "Estimate", total: int) -> None:
        """Says what is left and what it will take. Raises UsageError where nobody agrees to it."""
        from warpsmith.evaluation.tally import Tally
        from warpsmith.rollout import RESUMABLE

        self.tally, self.total = Tally(store, self._kind), total
        for episode in store.episodes():
            if episode.stop not in RESUMABLE:
                self.tally.add(episode)
        self._before = self.tally.episodes
        if self._before:
            self.note(f"{self._before} of {total} had ended before: {self.tally}")
        if left.episodes:
            self.note(said(left))
            self._agree(left)
        self._began = time.monotonic()

    def finished(self, question: "Question", episode: "Episode") -> None:
        """One line an episode, and the figures so far."""
        outcome = self.tally.add(episode)
        at = f", sample {question.sample}" if question.sample else ""
        self.note(
            f"{self.tally.episodes}/{self.total} {question.task.name}{at}: {outcome} ({episode.seconds:.0f} s)"
        )
        self.update()

    def lost(self, question: "Question", why: str) -> None:
        """One line."""
        self._lost += 1
        self.note(f"lost {question.task.name}, sample {question.sample}: {why}")
        self.update()

    def note(self, line: str) -> None:
        """A line that stays."""
        print(f"[{time.monotonic() - self._began:6.1f} s] {line}", file=sys.stderr, flush=True)

    def update(self) -> None:
        """The figures so far."""
        self.note(self.figures())

    def figures(self) -> str:
        """`passed 3/4 …; about 2 min left`."""
        line = str(self.tally) + (f", {self._lost} lost" if self._lost else "")
        ended = self.tally.episodes - self._before
        if ended and (left := self.total - self.tally.episodes - self._lost) > 0:
            line += f"; {duration((time.monotonic() - self._began) / ended * left)} left"
        return line

    def _agree(self, left: "Estimate") -> None:
        """Without a terminal nobody can be asked: only what may cost money then needs --yes or a budget."""
        costs = left.cost_usd is None or left.cost_usd > 0
        if self._yes or (costs and self._capped):
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            if costs:
                raise UsageError("this run may cost money", hint="give --yes or --max-cost")
            return
        long = left.seconds is None or left.seconds > ASK_S
        if (costs or long) and not typer.confirm("start?", default=True, err=True):
            raise UsageError("not started", hint="the same command asks again")


class TerminalBoard(Board):
    """A bar with the figures so far; what happens scrolls above it."""

    def __init__(self, kind: "SpeedupKind", *, yes: bool, capped: bool):
        super().__init__(kind, yes=yes, capped=capped)
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
            console=Console(stderr=True),
            transient=True,
        )
        self._task: Any = None

    def begins(self, store: "RunStore", left: "Estimate", total: int) -> None:
        """As above; the bar comes once it was agreed."""
        super().begins(store, left, total)
        self._task = self._progress.add_task("", total=total, completed=self.tally.episodes)
        self._progress.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def note(self, line: str) -> None:
        """A line above the bar."""
        self._progress.console.print(line, markup=False, highlight=False)

    def update(self) -> None:
        """Redraws the bar."""
        self._progress.update(self._task, completed=self.tally.episodes, description=self.figures())


def said(left: "Estimate") -> str:
    """`12 episodes to go, about 14 min, about $3.10 (assumed)`."""
    time_left = (
        duration(left.seconds) if left.seconds is not None else "time unknown until the first has ended"
    )
    if left.cost_usd is None:
        cost = ", cost unknown until the first has ended"
    else:
        cost = f", about ${left.cost_usd:.2f}" if left.cost_usd else ""
    by = "by the episodes so far" if left.measured else "assumed; no episode has ended yet"
    return f"{left.episodes} episodes to go, {time_left}{cost} ({by})"


def duration(seconds: float) -> str:
    """`about 40 s`, `about 12 min`, `about 3.5 h`."""
    if seconds < 90:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"
