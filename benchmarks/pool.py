"""Dispatch overhead and busy share of the pool of workers that stay.

Two measurements, without a GPU. *Scheduler*: 128 simulated GPUs and scripted workers whose jobs only take time, so
what is left over is the pool's own: queue, leases (real lock files), threads, handles. *Processes*: real workers of
this machine, each job a forked process that ends at once: what a job costs besides itself.

    python benchmarks/pool.py [--gpus 128] [--jobs 2560] [--mean-s 3.6] [--workers 2] [--forks 200]
"""

import argparse
import itertools
import os
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from common import RESULTS, save

from warpsmith.gpu.pool import WorkerPool
from warpsmith.gpu.scripted import Scene, ScriptedProbe, ScriptedWorkers, scripted_gpus
from warpsmith.gpu.warm import WarmWorker
from warpsmith.sandbox.process import Tree
from warpsmith.types import Device, Job, JobOutcome


def scheduler(gpus: int, jobs: int, mean_s: float, folder: Path) -> dict:
    """Jobs of 0.5 to 1.5 times `mean_s` on simulated GPUs, all queued at once, and the time between jobs of a GPU."""
    chance = random.Random(0)
    lengths = {f"job:{n}": mean_s * chance.uniform(0.5, 1.5) for n in range(jobs)}
    spans: dict[str, list[tuple[float, float]]] = {}
    one = threading.Lock()

    def script(job: Job, variables: Mapping[str, str]) -> Scene:
        now = time.monotonic()
        with one:
            spans.setdefault(variables["CUDA_VISIBLE_DEVICES"], []).append((now, now + lengths[job.entry]))
        return Scene(seconds=lengths[job.entry])

    pool = WorkerPool(
        ScriptedWorkers(script), gpus=lambda: scripted_gpus(gpus), leases=folder / "leases",
        find_fault=ScriptedProbe(), jobs_per_worker=200,
    )  # fmt: skip
    begun, cpu = time.monotonic(), time.process_time()
    handles = [
        pool.submit(Job(entry=entry, folder=str(folder), device=Device.CUDA, timeout_s=3600.0))
        for entry in lengths
    ]
    queued_s = time.monotonic() - begun
    results = [handle.result() for handle in handles]
    wall_s, cpu_s = time.monotonic() - begun, time.process_time() - cpu
    pool.close()
    assert all(result.outcome is JobOutcome.COMPLETED for result in results)
    # until the first GPU finds nothing left to do, all could be busy all the time
    end = min(max(stop for _, stop in of) for of in spans.values())
    busy = sum(min(stop, end) - min(start, end) for of in spans.values() for start, stop in of)
    gaps = [later[0] - earlier[1] for of in spans.values() for earlier, later in itertools.pairwise(of)]
    return {
        "gpus": gpus,
        "jobs": jobs,
        "mean_job_s": mean_s,
        "jobs_per_s": round(jobs / wall_s, 1),
        "busy_share_while_jobs_wait": round(busy / (gpus * (end - begun)), 4),
        "busy_share_all": round(sum(lengths.values()) / (gpus * wall_s), 4),
        "dispatch_ms": {
            "median": round(1000 * statistics.median(gaps), 3),
            "p99": round(1000 * sorted(gaps)[int(0.99 * len(gaps))], 3),
            "mean": round(1000 * statistics.mean(gaps), 3),
        },
        "submit_ms_a_job": round(1000 * queued_s / jobs, 3),
        "cpu_ms_a_job": round(1000 * cpu_s / jobs, 3),
    }


def processes(workers: int, forks: int, modules: tuple[str, ...], folder: Path) -> dict:
    """Jobs that end at once, one after another and `workers` at a time."""
    pool = WorkerPool(lambda: WarmWorker(Tree, modules), sim_jobs=workers)
    job = Job(entry="os:listdir", folder=str(folder), device=Device.SIM, timeout_s=60.0)
    for handle in [pool.submit(job) for _ in range(2 * workers)]:
        handle.result()
    alone = []
    for _ in range(forks):
        begun = time.monotonic()
        pool.run(job)
        alone.append(time.monotonic() - begun)
    begun = time.monotonic()
    for handle in [pool.submit(job) for _ in range(forks)]:
        handle.result()
    wall_s = time.monotonic() - begun
    # the workers are children: their processor time is known once they are gone
    before = os.times()
    pool.close()
    after = os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return {
        "workers": workers,
        "modules": list(modules),
        "jobs": forks,
        "one_after_another_ms": {
            "median": round(1000 * statistics.median(alone), 2),
            "p99": round(1000 * sorted(alone)[int(0.99 * forks)], 2),
        },
        "all_at_once_ms_a_job": round(1000 * wall_s / forks, 2),
        "workers_cpu_ms_a_job": round(1000 * cpu_s / (2 * forks + 2 * workers), 2),
    }


def main() -> None:
    """Measures and writes `results/pool.json`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, default=128)
    parser.add_argument("--jobs", type=int, default=2560)
    parser.add_argument(
        "--mean-s", type=float, default=3.6, help="3.6 s: a thousand verdicts an hour on a GPU"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--forks", type=int, default=200)
    parser.add_argument("--out", type=Path, default=RESULTS / "pool.json")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = {
            "scheduler": scheduler(asked.gpus, asked.jobs, asked.mean_s, folder),
            "short_jobs": scheduler(asked.gpus, asked.jobs * 2, asked.mean_s / 6, folder),
            "processes": processes(asked.workers, asked.forks, (), folder),
            "processes_with_torch": processes(asked.workers, asked.forks, ("torch",), folder),
        }
    # other work of the machine counts against all of these figures
    save(asked.out, cpus=os.cpu_count(), load_average=[round(load, 1) for load in os.getloadavg()], **found)
    for name, measured in found.items():
        print(name, measured)


if __name__ == "__main__":
    main()
