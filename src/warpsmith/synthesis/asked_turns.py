"""Turns on a GPU that the process above gives."""

import contextlib
import sys
from collections.abc import Iterator
from typing import TextIO

import torch

from warpsmith.judge.admission.rough_times import Held, Turns
from warpsmith.synthesis.turns import ALONE, GO, OVER, SHARED


class AskedTurns(Turns):
    """Asks on one stream and is answered on another. Ends the process where nobody is there to answer."""

    def __init__(self, answers: TextIO, said: TextIO):
        self._answers, self._said = answers, said

    def shared(self) -> Held:
        """The GPU beside a few others, for results."""
        return self._turn(SHARED)

    def alone(self) -> Held:
        """The GPU without others, for times."""
        return self._turn(ALONE)

    @contextlib.contextmanager
    def _turn(self, word: bytes) -> Iterator[None]:
        print(word.decode(), file=self._said, flush=True)
        if self._answers.readline().rstrip() != GO.decode():
            sys.exit(0)
        try:
            yield
        finally:
            _leave()
            print(OVER.decode(), file=self._said, flush=True)


def _leave() -> None:
    """Memory that this process holds and does not use is the others'."""
    if torch.cuda.is_initialized():
        with contextlib.suppress(RuntimeError):  # of a context that a kernel broke: the next call meets it
            torch.cuda.empty_cache()
