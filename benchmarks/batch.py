"""Runs several benchmarks and GPU tests one after the other within a budget of time, and goes on where it stopped.

    python benchmarks/batch.py --out FOLDER --budget-s 560 [--steps tests,evaluator,…] [--kernelbench FILE]
        [--evaluator CLONE] [--release CLONE] [--gpus 0,1]

For a GPU that is lent by the minute. First one honest kernel is judged: a tree that cannot do that ends the batch
before it has cost much. Each step has a limit of its own; its output goes to FOLDER/STEP.log and
its result to FOLDER/STEP.json, which the step itself goes on from. A step that ended well at this commit is not run
again; one that ran out of time or failed is. With several `--gpus` each takes the next step when it is free, and
sees no other GPU.
"""

import argparse
import json
import os
import queue
import shlex
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from common import provenance

HERE = Path(__file__).parent
PYTHON = shlex.quote(sys.executable)
GPU_TESTS = f"{PYTHON} -m pytest -m gpu -q --maxfail 8 --durations 15 -p no:cacheprovider"


@dataclass(frozen=True)
class Step:
    """One command: `limit_s` at most, and the paths that it cannot do without."""

    limit_s: float
    command: str
    needs: tuple[str, ...] = ()


SMOKE = Step(90, f"{GPU_TESTS} tests/judge/test_on_gpu.py -k honest")
STEPS = {
    "tests": Step(300, f"{GPU_TESTS} tests/judge"),
    "tests_other": Step(300, f"{GPU_TESTS} tests --ignore tests/judge --ignore tests/exploits"),
    "exploits": Step(
        560,
        f"{PYTHON} -m tests.exploits.matrix cuda --rows {{result}}l benchmarks/results/exploits_cuda.jsonl "
        "--budget-s {left_s} > {result}.md",
    ),
    "evaluator": Step(
        300,
        f"{PYTHON} {{here}}/kernelbench_evaluator.py --kernelbench {{kernelbench}} --kernelbench-repo {{evaluator}} "
        "--out {result}",
        ("kernelbench", "evaluator"),
    ),
    "evidence": Step(500, f"{PYTHON} {{here}}/evidence.py --skip-overhead --out {{result}}"),
    "overhead": Step(240, f"{PYTHON} {{here}}/evidence.py --skip-agreement --out {{result}}"),
    "turn": Step(240, f"{PYTHON} {{here}}/turn.py --release {{release}} --out {{result}}", ("release",)),
    "aa": Step(560, f"{PYTHON} {{here}}/aa.py --budget-s {{left_s}} --out {{result}}"),
    "throughput": Step(
        400,
        f"{PYTHON} {{here}}/throughput.py --kernelbench {{kernelbench}} --out {{result}}",
        ("kernelbench",),
    ),
    "optimizer": Step(
        560,
        f"{PYTHON} {{here}}/optimizer.py --kernelbench {{kernelbench}} --budget-s {{left_s}} --out {{result}}",
        ("kernelbench",),
    ),
    "bench": Step(
        580,
        f"{PYTHON} -m warpsmith bench --tasks kernelbench:{{kernelbench}} --protocol paper --device cuda --yes "
        "--compile-ahead 8 --jobs 6 --max-hours {left_h} --out {result}.run --json > {result}",
        ("kernelbench",),
    ),
    "soak": Step(
        580, f"{PYTHON} {{here}}/soak.py --device cuda --minutes {{left_min}} --jobs 3 --out {{result}}"
    ),
}
"""In the order that they run in."""
PATHS = ("kernelbench", "evaluator", "release")
"""What a step may need, each an option."""
MARGIN_S = 20.0
"""Kept from what is left, for a step that writes its result at its end."""


@dataclass(frozen=True)
class Batch:
    """Where it runs and until when; `ends` on time.monotonic's clock."""

    out: Path
    ends: float
    paths: dict[str, str]

    def left_s(self) -> float:
        return self.ends - time.monotonic()

    def run(self, name: str, step: Step, gpu: str | None) -> dict:
        """What the step came to on a GPU (None: all): its exit status (None: out of time), seconds and command."""
        limit = min(step.limit_s, self.left_s())
        left_s = int(max(1.0, limit - MARGIN_S))
        command = step.command.format(
            here=shlex.quote(str(HERE)), result=shlex.quote(str(self.out / f"{name}.json")),
            left_s=left_s, left_min=round(left_s / 60, 2), left_h=round(left_s / 3600, 4), **self.paths,
        )  # fmt: skip
        seen = dict(os.environ) | ({"CUDA_VISIBLE_DEVICES": gpu} if gpu is not None else {})
        began = time.monotonic()
        with (self.out / f"{name}.log").open("a") as log:
            process = subprocess.Popen(
                ["bash", "-c", command], cwd=HERE.parent, env=seen, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()
                status = None
        return {"status": status, "seconds": round(time.monotonic() - began, 1), "command": command}


def wanted(names: str, given: dict[str, str]) -> dict[str, Step]:
    """The steps asked for, in the table's order. Ends the program over an unknown name or a missing path."""
    chosen = names.split(",") if names else [n for n, s in STEPS.items() if all(map(given.get, s.needs))]
    for name in chosen:
        if name not in STEPS:
            raise SystemExit(f"no step {name!r}; there are {', '.join(STEPS)}")
        for path in STEPS[name].needs:
            if not given.get(path):
                raise SystemExit(f"step {name} needs --{path}")
    return {name: step for name, step in STEPS.items() if name in chosen}


def go(batch: Batch, steps: dict[str, Step], commit: str | None, gpus: list[str | None]) -> int:
    """Runs what has not ended well at this commit; batch.json is written after each. Returns how many failed."""
    record, one = batch.out / "batch.json", threading.Lock()
    done = json.loads(record.read_text()) if record.exists() else {}
    free = queue.Queue()
    for gpu in gpus:
        free.put(gpu)

    def run(item: tuple[str, Step]) -> bool:
        name, step = item
        if done.get(name, {}).get("status") == 0 and done[name]["commit"] == commit:
            return False
        gpu = free.get()
        try:
            if batch.left_s() < MARGIN_S:
                print(f"{name}: no time left")
                return False
            found = batch.run(name, step, gpu) | {"commit": commit, "gpu": gpu}
        finally:
            free.put(gpu)
        with one:
            done[name] = found
            record.write_text(json.dumps(done, indent=1) + "\n")
            print(name, json.dumps(found), flush=True)
        return found["status"] != 0

    with ThreadPoolExecutor(len(gpus)) as threads:
        return sum(threads.map(run, steps.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--budget-s", type=float, default=float("inf"))
    parser.add_argument("--steps", default="")
    parser.add_argument("--gpus", type=lambda text: text.split(","), default=[None], help="such as 0,1")
    for path in PATHS:
        parser.add_argument(f"--{path}", type=Path)
    args = parser.parse_args()
    given = {p: shlex.quote(str(getattr(args, p).resolve())) for p in PATHS if getattr(args, p)}
    steps = wanted(args.steps, given)
    args.out.mkdir(parents=True, exist_ok=True)
    batch = Batch(args.out.resolve(), time.monotonic() + args.budget_s, given)
    commit = provenance()["commit"]
    if go(batch, {"smoke": SMOKE}, commit, args.gpus[:1]):
        raise SystemExit(f"the smoke test failed; see {batch.out / 'smoke.log'}")
    raise SystemExit(min(go(batch, steps, commit, args.gpus), 1))


if __name__ == "__main__":
    main()
