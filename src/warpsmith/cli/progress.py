"""Progress on stderr: a spinner with phase and elapsed time on a terminal, plain lines elsewhere."""

import sys
import time
from types import TracebackType
from typing import Protocol, Self


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
        """A line that stays."""
        ...


def reporter() -> Reporter:
    """The reporter that fits stderr."""
    return TerminalReporter() if sys.stderr.isatty() else LineReporter()


class LineReporter:
    """One line for each change of phase and each note, with seconds since the start."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._last = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def phase(self, phase: str, detail: str = "") -> None:
        # details change with every call; a log keeps only the changes of phase
        if phase != self._last:
            self._last = phase
            self._print(f"{phase}: {detail}" if detail else phase)

    def note(self, text: str) -> None:
        self._print(text)

    def _print(self, text: str) -> None:
        print(f"[{time.monotonic() - self._start:6.1f} s] {text}", file=sys.stderr, flush=True)


class TerminalReporter:
    """A spinner line that rich redraws; notes scroll above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task("starting", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def phase(self, phase: str, detail: str = "") -> None:
        self._progress.update(self._task, description=f"{phase}: {detail}" if detail else phase)

    def note(self, text: str) -> None:
        self._progress.console.print(text, markup=False, highlight=False)
