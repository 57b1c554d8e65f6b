"""A worker that needs no torch: takes its turns, and notes in a folder who was there meanwhile.

A task named `hangs` keeps its turn for ever; one named `large` lacks memory the first time.
"""

import os
import sys
import time
from pathlib import Path

from warpsmith.synthesis.records import FILTER_VERSIONS, ComposedTask, FilterRow, Reject
from warpsmith.synthesis.turns import ALONE, OVER, SHARED
from warpsmith.types import Device


def turn(word: bytes, folder: Path) -> None:
    print(word.decode(), flush=True)
    sys.stdin.readline()
    mine = folder / f"{word.decode()}-{os.getpid()}"
    mine.touch()
    for _ in range(5):
        time.sleep(0.002)
        with (folder / f"seen-{os.getpid()}").open("a") as seen:
            there = sorted(path.name.split("-")[0] for path in folder.iterdir() if "seen" not in path.name)
            seen.write(" ".join(there) + "\n")
    mine.unlink()
    print(OVER.decode(), flush=True)


def main() -> None:
    folder = Path(sys.argv[1])
    while line := sys.stdin.readline():
        task = ComposedTask.model_validate_json(line)
        if "hangs" in task.name:
            print(ALONE.decode(), flush=True)
            sys.stdin.readline()
            time.sleep(3600)
        turn(SHARED, folder)
        turn(ALONE, folder)
        rejects = ()
        if "large" in task.name and not (folder / "seen-large").exists():
            (folder / "seen-large").touch()
            rejects = (Reject.OUTSIDE_MEMORY,)
        row = FilterRow(
            task_hash=task.task_hash,
            device=Device.SIM,
            filter_version=FILTER_VERSIONS[Device.SIM],
            rejects=rejects,
        )
        print(row.model_dump_json(), flush=True)


if __name__ == "__main__":
    main()
