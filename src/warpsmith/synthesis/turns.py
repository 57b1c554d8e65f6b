"""The turns in which processes that check tasks use a GPU: a few share it for results, one has it alone for times.

A process says `shared` or `alone`, goes on when it is told to, and says `over` afterwards. What compiles meanwhile
leaves the GPU to the others.
"""

import threading
import time

SHARED, ALONE, OVER, GO = b"shared", b"alone", b"over", b"go"
RETIRED = 75
"""Exit status of a process that answered and can check nothing more."""
MOST_SHARING = 3
"""Processes that run results on a GPU at a time: what one prepares on the CPU hides behind the others."""
POLL_S = 0.2


class Until:
    """When work ends: after `budget_s` seconds, or once it is stopped."""

    def __init__(self, budget_s: float | None = None):
        self._ends = float("inf") if budget_s is None else time.monotonic() + budget_s
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Now."""
        self._stopped.set()

    def left_s(self) -> float:
        """Seconds, at least 0."""
        return 0.0 if self._stopped.is_set() else max(0.0, self._ends - time.monotonic())


class UntilWanted(Until):
    """When `whole` ends, or once somebody wants the rest of the time, when `first` does."""

    def __init__(self, whole: Until, first: Until):
        super().__init__()
        self._whole, self._first = whole, first
        self._wanted = threading.Event()

    def want(self) -> None:
        """What is left of `whole` after `first`."""
        self._wanted.set()

    def left_s(self) -> float:
        """Seconds, at least 0."""
        first_s = self._first.left_s() if self._wanted.is_set() else float("inf")
        return min(super().left_s(), self._whole.left_s(), first_s)


class GpuTurns:
    """Of one GPU: a few processes share it, or one has it alone, which goes first."""

    def __init__(self, most_sharing: int = MOST_SHARING):
        self._changed = threading.Condition()
        self._most_sharing = most_sharing
        self._sharing, self._wanting, self._alone = 0, 0, False

    def take(self, word: bytes, until: Until) -> bool:
        """Waits for a turn; False where the time is up first."""
        with self._changed:
            self._wanting += word == ALONE
            try:
                while not self._free(word):
                    if not until.left_s():
                        return False
                    self._changed.wait(min(POLL_S, until.left_s()))
                self._alone = word == ALONE
                self._sharing += word == SHARED
            finally:
                self._wanting -= word == ALONE
        return True

    def give(self, word: bytes) -> None:
        """Ends a turn."""
        with self._changed:
            self._alone = self._alone and word != ALONE
            self._sharing -= word == SHARED
            self._changed.notify_all()

    def _free(self, word: bytes) -> bool:
        if word == ALONE:
            return not self._alone and not self._sharing
        return not self._alone and not self._wanting and self._sharing < self._most_sharing
