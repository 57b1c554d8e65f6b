"""Where the time of judgements goes, seen from outside: by when files of their folders appear and change.

    python benchmarks/timeline.py [--device cuda] [--judgements 12] [--jobs 1,3] [--measure] [--out FILE]

A run's own fleet judges one small honest kernel, built before, over and over. Medians of seconds:

    start      from the call to the lease of the GPU (go.json appears)
    device     from there to the first phase: CUDA starts in the referee, the machine is described
    PHASE      as the referee tells them: admission, load, correctness, timing, …
    closing    from the last phase's end to the verdict: the candidate's processes end
    answer     from the verdict to the call's return
    turnover   from the verdict to the next lease of the GPU, where a judgement waits for it
"""

import argparse
import queue
import statistics
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import RESULTS, save

sys.path.append(str(Path(__file__).parent.parent))
from tests.judge.samples import submission, task

from warpsmith.recipes.fleet import LocalFleet, Station
from warpsmith.types import Device, Status
from warpsmith.types.protocols import JudgeSettings, Menu

POLL_S = 0.002


class Watch(threading.Thread):
    """Notes when each judgement's folder has which file, on time.perf_counter's clock."""

    def __init__(self, scratch: Path):
        super().__init__(daemon=True)
        self.seen: dict[str, dict[str, float]] = {}
        self._scratch, self._done = scratch, threading.Event()

    def run(self) -> None:
        while not self._done.wait(POLL_S):
            for folder in self._scratch.glob("warpsmith-judge-*"):
                noted = self.seen.setdefault(folder.name, {})
                for name in ("go.json", "progress", "verdict.json"):
                    if name not in noted and (folder / name).exists():
                        noted[name] = time.perf_counter()

    def end(self) -> list[dict[str, float]]:
        """Judgements that came to a verdict, in the order that they had the GPU in."""
        self._done.set()
        self.join()
        return sorted((n for n in self.seen.values() if len(n) == 3), key=lambda noted: noted["go.json"])


def measured(device: Device, jobs: int, count: int, *, measure: bool) -> dict:
    """Medians over judgements of which `jobs` are under way at a time; the first of each are not counted."""
    settings = JudgeSettings(device=device, measure=measure, baselines=Menu.PAPER)
    with tempfile.TemporaryDirectory(prefix="timeline-") as name, LocalFleet(device, jobs) as fleet:
        tempfile.tempdir = name
        watch = Watch(Path(name))
        watch.start()
        stations: queue.Queue[Station] = queue.Queue()
        for _ in range(jobs):
            stations.put(fleet.station())

        def one(number: int) -> dict:
            station = stations.get()
            begun = time.perf_counter()
            verdict = station.judge.judge(task(), submission(), settings)
            ended = time.perf_counter()
            stations.put(station)
            assert verdict.status in (Status.PASSED, Status.UNSTABLE), verdict.detail
            return {"begun": begun, "ended": ended, "phases": verdict.seconds}

        with ThreadPoolExecutor(jobs) as threads:
            calls = sorted(threads.map(one, range(jobs + count)), key=lambda call: call["ended"])[jobs:]
        files = watch.end()
        tempfile.tempdir = None
    return told(calls, files, jobs)


def told(calls: list[dict], files: list[dict[str, float]], jobs: int) -> dict:
    """The parts' medians over calls whose folder was seen: the one whose verdict appeared last before it returned."""
    parts: dict[str, list[float]] = {}
    for call in calls:
        seen = [f for f in files if call["begun"] < f["verdict.json"] <= call["ended"] + POLL_S]
        if not seen:
            # its folder went between two looks
            continue
        mine = max(seen, key=lambda noted: noted["verdict.json"])
        inside = sum(seconds for name, seconds in call["phases"].items() if name != "compile")
        found = {
            "start": mine["go.json"] - call["begun"],
            "device": mine["progress"] - mine["go.json"],
            **{name: seconds for name, seconds in call["phases"].items()},
            "closing": mine["verdict.json"] - mine["progress"] - inside,
            "answer": call["ended"] - mine["verdict.json"],
            "all": call["ended"] - call["begun"],
        }
        later = [f["go.json"] for f in files if f["go.json"] > mine["verdict.json"]]
        if later and jobs > 1:
            found["turnover"] = min(later) - mine["verdict.json"]
        for name, seconds in found.items():
            parts.setdefault(name, []).append(seconds)
    wall_s = max(c["ended"] for c in calls) - min(c["begun"] for c in calls)
    return {
        "judgements": len(calls),
        "seen": len(parts.get("all", ())),
        "an_hour": round(3600 * len(calls) / wall_s),
        "median_s": {name: round(statistics.median(values), 3) for name, values in parts.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", type=Device, choices=list(Device), default=Device.CUDA)
    parser.add_argument("--judgements", type=int, default=12)
    parser.add_argument("--jobs", default="1,3")
    parser.add_argument("--measure", action="store_true", help="time and baselines too")
    parser.add_argument("--out", type=Path, default=RESULTS / "timeline.json")
    args = parser.parse_args()
    found = {}
    for jobs in map(int, args.jobs.split(",")):
        found[f"{jobs} under way"] = measured(args.device, jobs, args.judgements, measure=args.measure)
        print(jobs, found[f"{jobs} under way"], flush=True)
        save(args.out, device=args.device.value, measure=args.measure, found=found)


if __name__ == "__main__":
    main()
