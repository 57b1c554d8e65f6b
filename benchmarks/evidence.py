"""The judge's times beside CUPTI's, and what observing costs.

    python benchmarks/evidence.py [--only NAME,…] [--rounds 5] [--skip-agreement | --skip-overhead] [--out FILE]

Agreement: each task is judged once, its candidate being the model itself or a kernel of our own; the judge's net
time of a call stands beside the device time that CUPTI summed over that call. Overhead: brackets of the same model in
fresh processes with no part of the observer, with each part and with both, in turn; medians of a call in µs, by a
clock around the calls and a synchronize.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from common import RESULTS, save

if TYPE_CHECKING:
    from warpsmith.judge.evidence.observer.client import Observer

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n"
TASKS: dict[str, tuple[str, str, str]] = {
    "relu 1k": ("", "torch.relu(x)", "torch.rand(1024)"),
    "relu 1M": ("", "torch.relu(x)", "torch.rand(1024, 1024)"),
    "relu 16M": ("", "torch.relu(x)", "torch.rand(4096, 4096)"),
    "relu 256M": ("", "torch.relu(x)", "torch.rand(16384, 16384)"),
    "chain of 20 small": ("", "sum((x * (0.5 + i) for i in range(10)), x)", "torch.rand(64, 64)"),
    "gelu 32M": ("", "F.gelu(x)", "torch.rand(8192, 4096)"),
    "softmax": ("", "torch.softmax(x, 1)", "torch.rand(8192, 8192)"),
    "softmax of long rows": ("", "torch.softmax(x, 1)", "torch.rand(4096, 393216)"),
    "layer norm": ("self.n = nn.LayerNorm(4096)", "self.n(x)", "torch.rand(16384, 4096)"),
    "row sum": ("", "x.sum(1)", "torch.rand(32768, 8192)"),
    "cumsum": ("", "x.cumsum(1)", "torch.rand(4096, 8192)"),
    "transpose copy": ("", "x.t().contiguous()", "torch.rand(8192, 8192)"),
    "copy": ("", "x.clone()", "torch.rand(8192, 8192)"),
    "zeros": ("", "torch.zeros_like(x) + x[0, 0]", "torch.rand(4096, 4096)"),
    "gemm 256": ("", "x @ x", "torch.rand(256, 256)"),
    "gemm 4096": ("", "x @ x", "torch.rand(4096, 4096)"),
    "mlp": (
        "self.m = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))",
        "self.m(x)",
        "torch.rand(32, 512)",
    ),
    "conv": ("self.c = nn.Conv2d(64, 64, 3, padding=1)", "self.c(x)", "torch.rand(16, 64, 128, 128)"),
    "attention": ("", "torch.softmax(x @ x.T, 1) @ x", "torch.rand(4096, 512)"),
}
"""Name: what the constructor makes, what forward returns of x, the inputs."""
OWN = {
    "own axpb 1k": "torch.rand(1024)",
    "own axpb 16M": "torch.rand(4096, 4096)",
    "own axpb 256M": "torch.rand(16384, 16384)",
}
KERNEL = """
__global__ void axpb(float* out, const float* x, int n) {
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += (long)gridDim.x * blockDim.x)
        out[i] = 2.0f * x[i] + 1.0f;
}
extern "C" void axpb_launcher(float* out, const float* x, int n, cudaStream_t stream) {
    int blocks = (n + 255) / 256;
    axpb<<<blocks < 65536 ? blocks : 65536, 256, 0, stream>>>(out, x, n);
}
"""
OWN_MODEL = """
import cuda_extension
class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        cuda_extension.axpb(out, x, x.numel())
        return out
"""
BRACKETS, WARMUP = 60, 10
MODES = {"off": (), "operators": ("operators",), "kernels": ("kernels",), "both": ("operators", "kernels")}


def body(name: str) -> tuple[str, str, str]:
    """A task's class body, its inputs, and the submission's code."""
    init, result, inputs = TASKS.get(name) or ("", "2.0 * x + 1.0", OWN[name])
    text = (
        f"(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init or 'pass'}\n\n"
        f"    def forward(self, x):\n        return {result}\n"
    )
    return text, inputs, HEAD + (OWN_MODEL if name in OWN else "class ModelNew" + text)


def agreement(name: str) -> dict:
    """One judgement: its own time, CUPTI's, and what ran."""
    from warpsmith.cli.wiring import bench
    from warpsmith.types import Device, Submission, Task
    from warpsmith.types.protocols import JudgeSettings, Menu

    text, inputs, submission = body(name)
    tail = f"\ndef get_inputs():\n    return [{inputs}]\n\ndef get_init_inputs():\n    return []\n"
    code = f"{HEAD}class Model{text}{tail}"
    files = {"model_new.py": submission} | ({"kernels/axpb.cu": KERNEL} if name in OWN else {})
    judge = bench(Device.CUDA, lambda phase, what: None).judge
    settings = JudgeSettings(device=Device.CUDA, baselines=Menu.PAPER)
    verdict = judge.judge(Task(name=name, code=code), Submission(files=files), settings)
    seen = verdict.evidence
    row: dict = {
        "status": verdict.status.value,
        "detail": verdict.detail,
        "seconds": verdict.seconds,
        "checks": {c.check: c.detail for c in verdict.checks},
    }
    if seen is not None:
        row |= {
            "cupti_ms": seen.device_ms, "kernels_problem": seen.kernels_problem, "own_share": seen.own_share,
            "launches_per_call": seen.launches_per_call, "consistent": seen.consistent,
            "differences": seen.differences, "lost": seen.lost_records,
            "operators": seen.operators, "operators_source": seen.operators_source.value,
            "kernels": [(k.name[:90], k.kind.value, k.share) for k in seen.kernels[:6]],
        }  # fmt: skip
    if verdict.timings is not None:
        mine = verdict.timings.candidate
        row |= {
            "judge_ms": mine.median_ms,
            "events_ms": mine.device_median_ms,
            "launch_bound": mine.launch_bound,
        }
        if seen is not None and seen.device_ms:
            row["judge_over_cupti"] = mine.median_ms / seen.device_ms
    return row


def worker(names: list[str], folder: Path) -> None:
    """In a process of its own: µs a call of each task, with what of the observer lies in `folder`. A JSON line."""
    import torch

    from warpsmith.judge.evidence.observer.client import Observer

    def launch() -> None:
        torch.zeros(1, device="cuda")
        torch.cuda.synchronize()

    torch.cuda.init()
    observer = Observer("cuda")
    observer.start(folder)
    observer.check_sight(launch)
    with torch.no_grad():
        times = {name: _timed(name, observer, launch) for name in names}
    print(json.dumps({"times": times, "problems": observer.problems}))


def _timed(name: str, observer: "Observer", launch: Callable[[], None]) -> dict:
    """Medians over brackets: µs a call, and µs to read what was seen."""
    import torch

    text, inputs, _ = body(name)
    scope: dict = {}
    exec(f"{HEAD}class Model{text}", scope)
    model, x = scope["Model"]().cuda().eval(), eval(inputs, scope).cuda()

    def bracket(calls: int) -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            model(x)
        torch.cuda.synchronize()
        return time.perf_counter() - start

    bracket(3)
    calls = max(1, min(64, round(5e-3 / bracket(1))))
    found, reading = [], []
    for _ in range(WARMUP + BRACKETS):
        launch()
        observer.arm()
        found.append(1e6 * bracket(calls) / calls)
        start = time.perf_counter()
        observer.hold()
        observer.read()
        reading.append(1e6 * (time.perf_counter() - start))
    return {"us": statistics.median(found[WARMUP:]), "read_us": statistics.median(reading[WARMUP:])}


def overhead(names: list[str], folders: dict[str, Path], rounds: int) -> dict[str, dict]:
    """Task → medians over rounds of µs a call in each mode, and the ratios to `off`."""
    said: dict[str, list[dict]] = {mode: [] for mode in MODES}
    for _ in range(rounds):
        for mode, folder in folders.items():
            argv = [sys.executable, __file__, "--worker", ",".join(names), "--folder", str(folder)]
            done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True)
            said[mode].append(json.loads(done.stdout))
    rows = {}
    for name in names:
        us = {
            mode: statistics.median(one["times"][name]["us"] for one in found) for mode, found in said.items()
        }
        rows[name] = {
            "us": us,
            "ratio": {mode: us[mode] / us["off"] for mode in MODES},
            "read_us": {mode: found[-1]["times"][name]["read_us"] for mode, found in said.items()},
        }
    return rows | {"problems": {mode: found[-1]["problems"] for mode, found in said.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join([*TASKS, *OWN]))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--skip-agreement", action="store_true")
    parser.add_argument("--skip-overhead", action="store_true")
    parser.add_argument("--worker")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS / "evidence.json")
    args = parser.parse_args()
    if args.worker:
        worker(args.worker.split(","), args.folder)
        return
    from warpsmith.judge.evidence.observer.build import lay_out
    from warpsmith.judge.evidence.observer.parts import PARTS
    from warpsmith.store.paths import cache_root

    names = args.only.split(",")
    told = json.loads(args.out.read_text()) if args.out.exists() else {}
    agreed, costs = told.get("agreement", {}), told.get("overhead", {})
    if not args.skip_overhead:
        with tempfile.TemporaryDirectory(prefix="warpsmith-evidence-") as temporary:
            folders = {mode: Path(temporary) / mode for mode in MODES}
            for mode, folder in folders.items():
                lay_out(
                    cache_root() / "observer", folder, {p: "left out" for p in PARTS if p not in MODES[mode]}
                )
            costs |= overhead([name for name in names if name in TASKS], folders, args.rounds)
        save(args.out, agreement=agreed, overhead=costs)
        print(json.dumps(costs), flush=True)
    for name in names if not args.skip_agreement else ():
        if name not in agreed:
            agreed[name] = agreement(name)
            print(name, json.dumps(agreed[name]), flush=True)
            save(args.out, agreement=agreed, overhead=costs)


if __name__ == "__main__":
    main()
