"""Thousands of mixed submissions through the pool as runs of many have it: every verdict right, nothing leaks.

    python benchmarks/soak.py --device sim --count 5000 [--minutes N] [--jobs 1] [--every 100] [--out FILE]
    python benchmarks/soak.py --device cuda --minutes 10

Good, wrong, crashing, endless, flooding and hostile ones (`soak_kinds.py`; the hostile ones are the fixtures of
`tests/exploits`) in a random order that the seed sets. Before, after, and every so many judgements the service's
processes, memory, descriptors and threads are counted, and what lies in shared memory and the temporary folder.
It goes on where it stopped: what is done stands in FILE's `.part.jsonl`, which goes with the last one.
"""

import argparse
import contextlib
import json
import os
import queue
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
from common import RESULTS, save
from soak_kinds import Kind, hostile, order, own

from warpsmith.gpu.devices import list_gpus
from warpsmith.recipes.fleet import LocalFleet, Station
from warpsmith.types import Device
from warpsmith.types.protocols import JudgeSettings, Menu

READINGS, PAUSE_S = 15, 0.2
"""What ends in the background has ended in the lowest of so many readings."""
SHARED_MEMORY = Path("/dev/shm")


class Log:
    """One line of JSON for each judgement and each count."""

    def __init__(self, path: Path):
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text().splitlines() if path.exists() else []
        self.rows = []
        for line in lines:
            # the last may be torn
            with contextlib.suppress(ValueError):
                self.rows.append(json.loads(line))
        self._one = threading.Lock()

    def add(self, row: dict) -> None:
        """Kept when this returns."""
        with self._one, self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")
            self.rows.append(row)

    def verdicts(self) -> list[dict]:
        """Of the judgements."""
        return [row for row in self.rows if "got" in row]


def counted(scratch: Path) -> dict[str, int]:
    """What there is now: the lowest of several readings of each."""
    readings = []
    for _ in range(READINGS):
        readings.append(_reading(scratch))
        time.sleep(PAUSE_S)
    return {name: min(reading[name] for reading in readings) for name in readings[0]}


def _reading(scratch: Path) -> dict[str, int]:
    me = psutil.Process()
    family = me.children(recursive=True)
    workers = 0
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            # supervisor and worker; what is further down stays for one judgement
            workers += process.memory_info().rss if process.parent() in (me, *me.children()) else 0
    found = {
        "processes": len(family),
        "service_mib": me.memory_info().rss >> 20,
        "workers_mib": workers >> 20,
        "descriptors": me.num_fds(),
        "threads": me.num_threads(),
        "shared_memory_entries": len(os.listdir(SHARED_MEMORY)),
        "system_v_segments": max(0, len(Path("/proc/sysvipc/shm").read_text().splitlines()) - 1),
        "temporary_entries": sum(1 for _ in scratch.iterdir()),
    }
    gpus = list_gpus()
    return found | ({"gpu_mib": _gpu_mib()} if gpus else {})


def _gpu_mib() -> int:
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(list_gpus()[0].index)
    return pynvml.nvmlDeviceGetMemoryInfo(handle).used >> 20


def judged(station: Station, kind: Kind, device: Device, number: int) -> dict:
    """One judgement as a row."""
    settings = JudgeSettings(
        device=device, rules=kind.rules, measure=kind.measured, baselines=Menu.PAPER, call_timeout_s=kind.patience_s,
        timeout_s=600.0,
    )  # fmt: skip
    begun = time.monotonic()
    verdict = station.judge.judge(kind.task, kind.submission, settings)
    row = {"number": number, "kind": kind.name, "group": kind.group, "got": verdict.status.value}
    row |= {"seconds": round(time.monotonic() - begun, 2)}
    if verdict.status not in kind.expected:
        row |= {"expected": sorted(status.value for status in kind.expected), "detail": verdict.detail[:300]}
    return row


def soak(given: argparse.Namespace, log: Log, scratch: Path) -> None:
    """Judges what is not done yet; a block of `every` at a time, and counts between them."""
    kinds = order([*own(), *hostile(given.device)], given.seed, given.count)
    done = {row["number"] for row in log.verdicts()}
    left = [(number, kind) for number, kind in enumerate(kinds) if number not in done]
    deadline = time.monotonic() + 60 * given.minutes
    with LocalFleet(given.device, given.jobs) as fleet, ThreadPoolExecutor(given.jobs) as threads:
        stations: queue.Queue[Station] = queue.Queue()
        for _ in range(given.jobs):
            stations.put(fleet.station())

        def one(task: tuple[int, Kind]) -> None:
            if time.monotonic() > deadline:
                return
            station = stations.get()
            try:
                log.add(judged(station, task[1], given.device, task[0]))
            finally:
                stations.put(station)

        # before the first count everything has been loaded once
        for station in list(stations.queue):
            judged(station, own()[0], given.device, -1)
        log.add({"after": len(done), **counted(scratch)})
        for first in range(0, len(left), given.every):
            if time.monotonic() > deadline:
                break
            list(threads.map(one, left[first : first + given.every]))
            row = {"after": len(log.verdicts()), **counted(scratch)}
            log.add(row)
            print(f"{row}; {sum('expected' in r for r in log.verdicts())} not as expected", flush=True)


def told(given: argparse.Namespace, log: Log, left: dict[str, int]) -> None:
    """The result file."""
    groups: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for row in log.verdicts():
        groups[row["group"]][row["kind"]][row["got"]] += 1
    wrong = [row for row in log.verdicts() if "expected" in row]
    counts = [row for row in log.rows if "after" in row]
    save(
        given.out, device=given.device.value, judgements=len(log.verdicts()), asked_for=given.count,
        seed=given.seed, jobs=given.jobs, not_as_expected=wrong,
        seconds_judging=round(sum(row["seconds"] for row in log.verdicts()), 1),
        groups={group: sum(sum(c.values()) for c in kinds.values()) for group, kinds in sorted(groups.items())},
        got={g: {k: dict(c) for k, c in sorted(kinds.items())} for g, kinds in sorted(groups.items())},
        counts=counts, left_when_all_was_closed=left,
    )  # fmt: skip


def main() -> int:
    """Runs it and writes the file; exit status 1 where a verdict was not as expected."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", type=Device, choices=list(Device), default=Device.SIM)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--minutes", type=float, default=1e6)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    given.out = given.out or RESULTS / f"soak_{given.device.value}.json"
    log = Log(given.out.with_suffix(".part.jsonl"))
    before = set(os.listdir(SHARED_MEMORY))
    with tempfile.TemporaryDirectory(prefix="soak-") as place:
        scratch = Path(place, "tmp")
        scratch.mkdir()
        os.environ |= {"TMPDIR": str(scratch), "WARPSMITH_CACHE": str(Path(place, "cache"))}
        tempfile.tempdir = None
        try:
            soak(given, log, scratch)
        finally:
            left = {
                "processes": len(psutil.Process().children(recursive=True)),
                "temporary_entries": sum(1 for _ in scratch.iterdir()),
                "shared_memory_entries": len(set(os.listdir(SHARED_MEMORY)) - before),
            }
            told(given, log, left)
    wrong = sum("expected" in row for row in log.verdicts())
    print(f"{len(log.verdicts())} of {given.count} judgements, {wrong} not as expected; left: {left}")
    if len(log.verdicts()) >= given.count:
        log.path.unlink()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
