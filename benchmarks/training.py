"""Every stage of training on the CPU with a tiny model and the simulator's judge, each killed once and gone on with.

    python benchmarks/training.py --folder DIR [--judge local|scripted:WORD] [--kill STAGE,…] [--out FILE]

A model of random weights is shown answers of a scripted teacher to four tasks, and then goes through `rft`,
`collect`, `value`, `warmup`, `ppo` and, before and after, `eval`, each by `warpsmith train …` in a folder below DIR.
Once a stage of --kill has something to go on from, it is ended with SIGKILL and the same command given again.
Writes, a stage: seconds of both processes, what had been done at the kill, the curves, and a step's median seconds in
generation, judging and updating. A stage that has ended is not run again, so a run that was stopped goes on.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from common import RESULTS, save

import warpsmith
from warpsmith.cli.train_inputs import judge_spec, read_tasks
from warpsmith.training.stage import Curves, StageFolder, StageResult, is_whole
from warpsmith.training.tiny import demonstrate, make_tiny_model

TASK = """\
import torch
class Model(torch.nn.Module):
    def forward(self, x): return x + 1
def get_inputs(): return [torch.rand(4)]
def get_init_inputs(): return []
"""
ANSWER = """\
```python file=model_new.py
import torch
import cuda_extension
class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        cuda_extension.plus(out, x, x.numel())
        return out
```
```cuda file=kernels/plus.cu
__global__ void plus(float* out, const float* x, long long n) {
    long long i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] + 1.0f;
}
extern "C" void plus_launcher(float* out, const float* x, long long n, cudaStream_t stream) {
    plus<<<(n + 255) / 256, 256, 0, stream>>>(out, x, n);
}
```"""
TASKS = 4
SHOWN = (
    "reward/mean",
    "reward/none",
    "critic/explained_variance",
    "critic/loss",
    "actor/loss",
    "actor/entropy",
    "actor/clip_low",
    "actor/clip_high",
    "mismatch/max_abs",
    "ratio/p99",
    "groups/flat_share",
    "turns/mean",
    "response/tokens",
    "response/masked_share",
    "episode/generate_s",
    "episode/judge_s",
)
TIMES = ("gen", "old_log_prob", "values", "adv", "update_critic", "update_actor", "save_checkpoint", "step")


@dataclass
class Chain:
    """The commands of one chain, and what came of them."""

    folder: Path
    judge: str
    kill: frozenset[str]
    rows: dict[str, dict] = field(default_factory=dict)

    def run(
        self, name: str, stage: str, *options: str, when: Callable[[Path], bool] | None = None
    ) -> StageResult:
        """One stage to its end, killed once when `when` holds."""
        out = self.folder / name
        row = out / "benchmark.json"
        with_tasks = [
            word for path in sorted(self.folder.glob("task*.py")) for word in ("--tasks", str(path))
        ]
        argv = [sys.executable, "-m", "warpsmith", "train", stage, "--out", str(out), "--json"]
        argv += ["--recipe", "cpu_tiny", *options]
        if stage not in ("rft", "value"):
            argv += ["--judge", self.judge, "--device", "sim", *with_tasks]
        if not row.exists():
            told = {"options": [option.replace(str(self.folder), "DIR") for option in options]}
            if name in self.kill and when is not None and not out.exists():
                told["killed"] = killed(argv, out, when)
            begun = time.monotonic()
            ended = subprocess.run(argv, stdout=subprocess.PIPE, text=True)
            if ended.returncode != 0:
                raise SystemExit(f"{name} ended with status {ended.returncode}; see {out}")
            row.write_text(json.dumps(told | {"seconds": round(time.monotonic() - begun, 1)}))
        with StageFolder(out) as folder:
            result = folder.result()
        self.rows[name] = json.loads(row.read_text()) | figures(out, result)
        print(f"{name}: {self.rows[name]['seconds']} s", file=sys.stderr)
        return result


def killed(argv: list[str], out: Path, when: Callable[[Path], bool]) -> dict:
    """Starts a command and kills it with no warning once `when` holds; what was there then."""
    begun = time.monotonic()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    while not when(out):
        if process.poll() is not None:
            raise SystemExit(f"{out.name} ended with status {process.returncode} before it could be killed")
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    steps = [row["step"] for row in Curves(out).rows()]
    return {"seconds": round(time.monotonic() - begun, 1), "steps": steps, "episodes": episodes(out)}


def episodes(out: Path) -> int:
    """Episodes that were begun below a stage's folder."""
    return sum(1 for _ in out.rglob("journal/*.jsonl"))


def saved(out: Path) -> bool:
    """Whether a checkpoint is whole."""
    return any(is_whole(path) for path in (out / "checkpoints").glob("global_step_*"))


def figures(out: Path, result: StageResult) -> dict:
    """What a reader needs of a stage: its curves, and where a step's time went."""
    rows = Curves(out).rows()
    steps = [row["step"] for row in rows]
    if steps != list(range(1, len(steps) + 1)):
        raise SystemExit(f"{out} has steps {steps}")
    curves = {name: [round(row[name], 6) for row in rows] for name in SHOWN if rows and name in rows[0]}
    found: dict = {"steps": len(rows), "episodes": episodes(out), "curves": curves}
    found |= {name: result.figures[name] for name in ("passed", "passed/low", "passed/high") if not rows}
    if rows and "timing_s/step" in rows[0]:
        # the first step pays for starting the workers
        later = rows[1:] or rows
        took = {
            name: [row[f"timing_s/{name}"] for row in later if f"timing_s/{name}" in row] for name in TIMES
        }
        found["median_s"] = {
            n: round(statistics.median(seconds), 3) for n, seconds in took.items() if seconds
        }
    return found


def prepare(folder: Path) -> None:
    """A model, tasks, and a teacher's answers to them."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(TASKS):
        (folder / f"task{number}.py").write_text(f"{TASK}# {number}\n")
    if not (folder / "model" / "config.json").exists():
        agent = Path(warpsmith.__file__).parent / "agent"
        # a tokenizer that knows the agent's prompt keeps it short
        prompts = [path.read_text() for path in sorted(agent.rglob("*.*")) if path.suffix in (".py", ".md")]
        texts = [*[TASK] * 9, *[ANSWER] * 9, *prompts]
        make_tiny_model(folder / "model", texts, vocabulary=2048, width=64)


def stages(chain: Chain) -> Iterator[None]:
    """The chain, one stage after the other; yields once each has ended."""
    folder, room = chain.folder, ("response_tokens=320", "answer_tokens=256")
    spec = judge_spec(chain.judge, "sim", "practical")
    tasks = read_tasks([str(path) for path in sorted(folder.glob("task*.py"))], spec)
    demonstrate(folder / "demonstrations", tasks, [ANSWER], spec)
    base, shown = str(folder / "model"), str(folder / "demonstrations")

    def rate(name: str, model: str) -> StageResult:
        return chain.run(name, "eval", "--model", model, "--samples", "4", "--single-turn", *sets(*room))

    rate("eval_base", base)
    yield
    learned = sets("fine_tune_epochs=160", "save_every=20", *room)
    taught = chain.run("rft", "rft", "--from", shown, "--model", base, *learned, when=saved).model
    yield
    rate("eval_rft", taught)
    yield
    played = ("--policy", "model", "--model", taught, "--samples", "2", "--single-turn", *sets(*room))
    chain.run("collect", "collect", *played, when=begun)
    yield
    told = sets("value_batch=8", "value_epochs=12", "critic_lr=0.003", "save_every=4", *room)
    found = ("--from", str(folder / "collect"), "--model", taught)
    critic = chain.run("value", "value", *found, *told, when=saved).model
    yield
    # entropy starts near 0 in a model that knows one answer by heart: its rise is no alarm here
    # and small steps: at five times this rate it lost all that it knew within three of them, and the watch stopped it
    pushed = sets(
        "steps=8", "batch=16", "save_every=2", "micro_batch=8", "actor_lr=0.0002",
        'watch={"entropy_high":null}', *room,
    )  # fmt: skip
    warm = chain.run("warmup", "warmup", "--model", taught, "--critic", critic, *pushed, when=saved).model
    yield
    rate("eval_warmup", warm)
    yield
    few = sets(
        "prompt_tokens=8192", "response_tokens=1024", "batch=4", "samples=2", "micro_batch=1", "steps=2",
        "actor_lr=0.0002",
    )  # fmt: skip
    last = chain.run("ppo", "ppo", "--model", warm, "--critic", critic, *few, when=saved).model
    yield
    rate("eval_ppo", last)
    yield


def sets(*figures: str) -> list[str]:
    """Options that change a recipe's figures."""
    return [word for figure in figures for word in ("--set", figure)]


def begun(out: Path) -> bool:
    """Whether some episodes are under way."""
    return episodes(out) >= 3


def main() -> None:
    """Runs the chain and writes its result after every stage."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--judge", default="local")
    parser.add_argument("--kill", default="rft,collect,value,warmup,ppo")
    parser.add_argument("--out", type=Path, default=RESULTS / "training_cpu.json")
    args = parser.parse_args()
    folder = args.folder.absolute()
    prepare(folder)
    chain = Chain(folder, args.judge, frozenset(args.kill.split(",")))
    for _ in stages(chain):
        save(args.out, cores=os.cpu_count(), judge=args.judge, stages=chain.rows)


if __name__ == "__main__":
    main()
