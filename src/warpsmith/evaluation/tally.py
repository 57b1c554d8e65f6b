"""Counts of a run that goes on, as they are now: for a line of progress. A report's figures come from `metrics`."""

import math
from collections import Counter

from warpsmith.evaluation.row import Against
from warpsmith.evaluation.rows import score_of
from warpsmith.reward import SpeedupKind
from warpsmith.store import RunReader
from warpsmith.types import Episode, Status


class Tally:
    """Of the episodes of `run`, one after another. Ratios are those of `kind`."""

    def __init__(self, run: RunReader, kind: SpeedupKind):
        self.episodes = 0
        self.outcomes: Counter[str] = Counter()
        """Status of each score; what nothing passed in is told by its last verdict, or as `nothing submitted`."""
        self._run = run
        self._eager, self._compile = (Against(f"{kind.value}_{side}") for side in ("eager", "compile"))
        self._ratios: dict[Against, list[float]] = {self._eager: [], self._compile: []}

    def add(self, episode: Episode) -> str:
        """Counts an episode; its outcome."""
        judged = [turn.verdict_hash for turn in episode.turns if turn.verdict_hash]
        chosen = episode.final_verdict_hash or (judged[-1] if judged else None)
        verdict = self._run.verdict(chosen) if chosen else None
        outcome = verdict.status.value if verdict else "nothing submitted"
        self.episodes += 1
        self.outcomes[outcome] += 1
        if verdict is not None and verdict.status is Status.PASSED:
            for against, measured in score_of(verdict).ratios.items():
                if against in self._ratios:
                    self._ratios[against].append(measured.ratio)
        return outcome

    @property
    def passed(self) -> int:
        """Episodes whose score passed."""
        return self.outcomes[Status.PASSED.value]

    def faster(self, against: Against) -> int:
        """Episodes that were merely faster."""
        return sum(ratio > 1 for ratio in self._ratios[against])

    def geomean(self, against: Against) -> float | None:
        """Over passes that were timed; None of none."""
        ratios = self._ratios[against]
        return math.exp(math.fsum(map(math.log, ratios)) / len(ratios)) if ratios else None

    def __str__(self) -> str:
        """`passed 12/15, faster than eager 9, than compile 7, geomean 1.43× and 1.21×`."""
        said = f"passed {self.passed}/{self.episodes}"
        eager, compiled = self.geomean(self._eager), self.geomean(self._compile)
        if eager is not None and compiled is not None:
            said += (
                f", faster than eager {self.faster(self._eager)}, than compile {self.faster(self._compile)}"
            )
            said += f", geomean {eager:.2f}× and {compiled:.2f}×"
        return said

    def summary(self) -> dict[str, object]:
        """Plain values; None for what was not measured."""
        sides = {"eager": self._eager, "compile": self._compile}
        return {
            "episodes": self.episodes,
            "passed": self.passed,
            "outcomes": dict(sorted(self.outcomes.items())),
            "faster": {s: self.faster(a) if self._ratios[a] else None for s, a in sides.items()},
            "geomean": {side: self.geomean(against) for side, against in sides.items()},
        }
