"""What a judgement costs where its runners are forked from a process with torch loaded, and where they start anew.

    python benchmarks/forks.py [--device sim] [--judgements 20] [--out FILE]

One small honest kernel, built before, judged over and over by one warm judge, in blocks of both kinds in turn. Wall
seconds from call to verdict, and processor seconds of the whole machine meanwhile: run it where nothing else runs.
"""

import argparse
import statistics
import sys
import time
from contextlib import closing
from pathlib import Path

from common import RESULTS, save

sys.path.append(str(Path(__file__).parent.parent))
from tests.judge.samples import submission, task

from warpsmith.compile import LocalCompiler
from warpsmith.gpu.pool import WorkerPool
from warpsmith.gpu.warm import WarmWorker
from warpsmith.judge.runner.forkserver import ForkServer
from warpsmith.judge.service import LocalJudge
from warpsmith.recipes.fleet import WARM, default_arch
from warpsmith.sandbox import best_available
from warpsmith.sandbox.process import Tree
from warpsmith.types import Device, Status
from warpsmith.types.protocols import JudgeSettings

BLOCK = 5


def processor_s() -> float:
    """Seconds that all processors were busy since the machine's start."""
    user, nice, system, _, _, irq, soft = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:8]
    )
    return (user + nice + system + irq + soft) / 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", type=Device, choices=list(Device), default=Device.SIM)
    parser.add_argument("--judgements", type=int, default=20, help="of each kind")
    parser.add_argument("--out", type=Path, default=RESULTS / "forks.json")
    args = parser.parse_args()
    arch = default_arch() if args.device is Device.CUDA else ""
    settings = JudgeSettings(device=args.device, measure=False)
    rows: dict[str, list[dict[str, float]]] = {"forked": [], "started": []}
    with closing(WorkerPool(lambda: WarmWorker(Tree, WARM[:1]), sim_jobs=1)) as pool, ForkServer() as forks:
        judges = {
            kind: LocalJudge(pool, LocalCompiler(), best_available(), arch=arch, ahead=True, forks=given)
            for kind, given in (("forked", forks), ("started", None))
        }
        for block in range(-(-args.judgements // BLOCK)):
            for kind, judge in judges.items():
                with closing(judge):
                    # the first finds no processes started for it
                    judged(judge, settings)
                    rows[kind] += [judged(judge, settings) for _ in range(BLOCK)]
                print(block, kind, rows[kind][-BLOCK:], flush=True)
    told = {
        kind: {k: statistics.median(r[k] for r in found) for k in found[0]} for kind, found in rows.items()
    }
    save(args.out, device=args.device.value, isolation=best_available().name, median=told, rows=rows)
    print(told)


def judged(judge: LocalJudge, settings: JudgeSettings) -> dict[str, float]:
    """Both kinds of seconds of one judgement, which must pass."""
    begun, busy = time.perf_counter(), processor_s()
    verdict = judge.judge(task(), submission(), settings)
    assert verdict.status is Status.PASSED, verdict.detail
    return {
        "wall_s": round(time.perf_counter() - begun, 3),
        "processor_s": round(processor_s() - busy, 3),
    }


if __name__ == "__main__":
    main()
