"""One edit→verdict turn: `warpsmith judge` beside another harness's own scripts, on the same kernel.

    python benchmarks/turn.py --release DIR [--out FILE] [--turns 3]

DIR is a folder in the layout of the CUDA Agent release's `agent_workdir` (model.py, model_new.py, kernels/,
binding.cpp, utils/compile.py, utils/verification.py, utils/profiling.py). Each turn edits the kernel (a comment with
a new number), then runs, in fresh processes: its three scripts; `warpsmith judge` on the same folder; and
`warpsmith judge` on the same kernel in the C-ABI form; and that in a service, which judges one edit after the other.
The first turn of each is cold: nothing built before. Ours compare with eager and torch.compile in PyTorch's default
mode, as the release's scripts do.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import RESULTS, save

from warpsmith import tasks
from warpsmith.cli import wiring
from warpsmith.types import STATUS_TABLE, Device, Status, Task
from warpsmith.types.protocols import Judge, JudgeSettings, Menu
from warpsmith.workspace import load_submission

C_ABI_MODEL = """import torch
import torch.nn as nn
import cuda_extension


class ModelNew(nn.Module):
    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, a, b):
        out = torch.empty_like(a)
        cuda_extension.axpby(out, a, b, self.alpha, a.numel(), 0)
        return out
"""
KERNEL = "axpby, float32 [1, 128]"
WAYS = ("warpsmith_service", "warpsmith_c_abi", "warpsmith_workspace")
SETTINGS = JudgeSettings(device=Device.CUDA, baselines=Menu.PAPER, interleave=False)
PAUSE_S = 5.0
"""Between two judgements of the service, as long as a turn's thinking takes at least."""
SCRIPTS = ("compile", "verification", "profiling")


def timed(argv: list[str], cwd: Path, env: dict[str, str] | None = None, also: int = 0) -> tuple[float, str]:
    """Wall seconds and stdout of a command that must succeed, or end with the status `also`."""
    start = time.perf_counter()
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, env=env)
    seconds = time.perf_counter() - start
    if done.returncode not in (0, also):
        raise SystemExit(f"{' '.join(argv)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return seconds, done.stdout


def edit(kernel: Path, number: int) -> None:
    """A change that must be compiled again."""
    text = kernel.read_text().split("\n// turn ")[0]
    kernel.write_text(f"{text}\n// turn {number} {time.time_ns()}\n")


def edited(folder: Path, number: int) -> Path:
    """The folder, its kernel changed once more."""
    edit(folder / "kernels" / "axpby.cu", number)
    return folder


def release_turn(folder: Path) -> dict[str, float]:
    """Seconds of the harness's three scripts, one after another."""
    return {name: timed([sys.executable, "-m", f"utils.{name}"], folder)[0] for name in SCRIPTS}


def judge_turn(task: Path, folder: Path, env: dict[str, str]) -> dict:
    """Seconds of one `warpsmith judge`, and what it said."""
    argv = [sys.executable, "-m", "warpsmith", "judge", str(task), str(folder), "--device", "cuda"]
    argv += ["--baselines", "paper", "--json"]
    seconds, out = timed(argv, folder.parent, env, also=STATUS_TABLE[Status.UNSTABLE].exit_code)
    verdict = json.loads(out)
    if verdict["status"] not in (Status.PASSED, Status.UNSTABLE):
        raise SystemExit(f"{' '.join(argv)} said {verdict}")
    told = {"status": verdict["status"], "speedup": verdict["speedup"], "detail": verdict["detail"]}
    return {"seconds": seconds} | told


def service_turn(judge: Judge, task: Task, folder: Path) -> dict:
    """Seconds of one judgement in a process that has judged before and holds the next one's processes ready."""
    time.sleep(PAUSE_S)
    start = time.perf_counter()
    verdict = judge.judge(task, load_submission(folder), SETTINGS)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "status": verdict.status.value, "phases_s": verdict.seconds}


def compared(turns: list[dict]) -> dict:
    """Medians of the turns after the first, and how many times faster than the release's each way is."""
    warm = turns[1:] or turns
    release_s = statistics.median(sum(t["release"].values()) for t in warm)
    seconds = {way: statistics.median(t[way]["seconds"] for t in warm) for way in WAYS}
    return {
        "release_seconds": release_s,
        "seconds": seconds,
        "times_faster": {way: release_s / s for way, s in seconds.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--release", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=RESULTS / "turn.json")
    parser.add_argument("--turns", type=int, default=3)
    args = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="warpsmith-turn-"))
    shutil.copytree(args.release, work / "release")
    task = work / "axpby.py"
    shutil.copy(args.release / "model.py", task)
    workspace, c_abi = work / "workspace", work / "c_abi"
    shutil.copytree(args.release, workspace, ignore=shutil.ignore_patterns("utils", "model.py", "SKILL.md"))
    (c_abi / "kernels").mkdir(parents=True)
    shutil.copy(args.release / "kernels" / "axpby.cu", c_abi / "kernels" / "axpby.cu")
    (c_abi / "model_new.py").write_text(C_ABI_MODEL)
    env = {**os.environ, "WARPSMITH_CACHE": str(work / "cache")}

    os.environ["WARPSMITH_CACHE"] = env["WARPSMITH_CACHE"]
    judge = wiring.bench(Device.CUDA, lambda phase, what: None, ahead=True).judge
    turns = []
    for number in range(args.turns):
        for folder in (work / "release", workspace, c_abi):
            edit(folder / "kernels" / "axpby.cu", number)
        turn = {
            "warpsmith_c_abi": judge_turn(task, c_abi, env),
            "warpsmith_service": service_turn(judge, tasks.load(str(task)), edited(c_abi, number)),
            "warpsmith_workspace": judge_turn(task, workspace, env),
            "release": release_turn(work / "release"),
        }
        turns.append(turn)
        print(json.dumps(turn), flush=True)
        save(args.out, kernel=KERNEL, turns=turns, **compared(turns))
    shutil.rmtree(work)
    print(json.dumps(compared(turns)["times_faster"]))


if __name__ == "__main__":
    main()
