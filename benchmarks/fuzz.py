"""A long campaign over every reader of foreign input, and over the answers of candidates in whole judgements.

    python benchmarks/fuzz.py [--minutes 5] [--seed 0] [--only WORD] [--out FILE]

The readers and their examples are those of `tests/fuzz`. Each gets an equal share of the time, in rounds with seeds
of their own. A failure is an exception that the reader may not raise, a message of several lines, or a wrong
candidate that passes; the smallest example that shows it is kept.
"""

import argparse
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

from common import RESULTS, save
from hypothesis import HealthCheck, Phase, given, seed, settings

sys.path.append(str(Path(__file__).parent.parent))
from tests.fuzz.targets import Target, cleared, targets

ROUND = 200
MOST_FAILURES = 5
"""Of one reader; after that it is left alone."""


@dataclass
class Tally:
    """One reader's campaign."""

    target: Target
    examples: int = 0
    seconds: float = 0.0
    failures: list[dict] = field(default_factory=list)

    def round(self, number: int) -> None:
        """Another round of examples."""
        begun = time.monotonic()
        last: list[object] = []

        def read(example: object) -> None:
            self.examples += 1
            last[:] = [example]
            self.target.read(example)

        asked = settings(
            max_examples=ROUND, deadline=None, database=None, print_blob=False,
            phases=(Phase.generate, Phase.shrink), suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        try:
            asked(seed(number)(given(self.target.examples)(read)))()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            # of several failures hypothesis tells all at once
            for each in getattr(error, "exceptions", (error,)):
                at = traceback.extract_tb(each.__traceback__)[-1]
                self.failures.append(
                    {
                        "error": f"{type(each).__name__}: {each}"[:500],
                        "at": f"{Path(at.filename).name}:{at.lineno}",
                        "example": repr(last[-1])[:1000] if last else "",
                        "seed": number,
                    }
                )
        self.seconds += time.monotonic() - begun


def main() -> int:
    """Runs it and writes the file; exit status 1 where something failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path, default=RESULTS / "fuzz.json")
    given_ = parser.parse_args()
    tallies = [Tally(target) for target in targets() if given_.only in target.name]
    begun, number = time.monotonic(), given_.seed
    while time.monotonic() - begun < 60 * given_.minutes:
        left = [tally for tally in tallies if len(tally.failures) < MOST_FAILURES]
        if not left:
            break
        number += 1
        # who had the least time so far
        min(left, key=lambda tally: tally.seconds).round(number)
    cleared()
    failures = sum(len(tally.failures) for tally in tallies)
    save(
        given_.out, seed=given_.seed, examples=sum(tally.examples for tally in tallies), failures=failures,
        seconds=round(time.monotonic() - begun, 1),
        readers=[
            {
                "reader": tally.target.name, "examples": tally.examples, "seconds": round(tally.seconds, 1),
                "failures": tally.failures,
            }
            for tally in tallies
        ],
    )  # fmt: skip
    for tally in tallies:
        print(f"{tally.examples:8} {tally.target.name}: {len(tally.failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
