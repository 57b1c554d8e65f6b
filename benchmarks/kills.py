"""kill -9 of somebody at a random moment of each judgement, and the next judgement with nobody killed.

    python benchmarks/kills.py [--count 100] [--minutes N] [--seed 0] [--once] [--out FILE]

Half of the judgements are of a wrong submission. Judgements are asked again by the product's own rule, but with
`--once`. What must hold: no wrong submission passes and no honest one is called wrong; the next judgement is right;
at the end no process, no folder and no shared memory is left. `violations` names what did not.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from common import RESULTS, save

sys.path.append(str(Path(__file__).parent.parent))
from tests.judge.kills import Ground, Kill, ground

from warpsmith.types import Status
from warpsmith.types.protocols import Judge


def tried(held: Ground, judge: Judge, kill: Kill, seen: Counter[str], violations: list[str]) -> None:
    """One judgement with a kill, and one without."""
    verdict, killed = held.judged(judge, kill)
    seen[f"{killed or 'nobody'} killed, {'wrong' if kill.wrong else 'honest'}: {verdict.status.value}"] += 1
    if verdict.status not in kill.allowed(killed):
        violations.append(f"{kill}, {killed} was killed: {verdict.status.value}: {verdict.detail}")
    after = held.plain(judge, wrong=not kill.wrong)
    if after.status is not (Status.PASSED if kill.wrong else Status.WRONG):
        violations.append(f"after {kill}: {after.status.value}: {after.detail}")


def main() -> int:
    """Runs them and writes the file; exit status 1 where something did not hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS / "kills.json")
    given = parser.parse_args()
    chance, seen, violations = random.Random(given.seed), Counter[str](), list[str]()
    begun, shared, count = time.monotonic(), set(os.listdir("/dev/shm")), 0
    with tempfile.TemporaryDirectory(prefix="kills-") as place:
        scratch, caches = Path(place, "scratch"), Path(place, "caches")
        scratch.mkdir()
        os.environ["WARPSMITH_CACHE"] = str(caches)
        with ground(scratch, caches) as held:
            held.plain(held.asking, wrong=False)
            while count < given.count and time.monotonic() - begun < 60 * given.minutes:
                judge = held.judge if given.once else held.asking
                tried(held, judge, Kill.drawn(chance), seen, violations)
                count += 1
        left = held.left()
    left += sorted(set(os.listdir("/dev/shm")) - shared)
    save(
        given.out, judgements_with_a_kill=count, seed=given.seed, asked_again=not given.once,
        processes_ever=len(held.ever),
        seconds=round(time.monotonic() - begun, 1), outcomes=dict(sorted(seen.items())), left=left,
        violations=violations,
    )  # fmt: skip
    print(f"{count} kills, {len(violations)} violations, {len(left)} left")
    return 1 if violations or left else 0


if __name__ == "__main__":
    sys.exit(main())
