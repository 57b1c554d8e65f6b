"""KernelBench's own evaluator beside `warpsmith judge`, on twelve solutions in its form, half of them right.

    python benchmarks/kernelbench_evaluator.py --kernelbench-repo DIR --kernelbench FILE [--out FILE]

DIR is a clone of KernelBench, or a folder with its src/kernelbench/{eval,timing,dataset}.py, at a revision whose
`eval` does without `utils` (which needs litellm), such as b6c5259. Its `eval_kernel_against_ref` runs with its own
defaults (fp32, and its tolerance for that) but 5 correctness trials and 100 timed calls, in a process of its own for
each solution. All extensions are built first, in parallel, by either side's own means; the seconds of a row are
those of one evaluation with its extension built, the process's start included. Needs requests and pydantic.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType

from common import RESULTS, save

SOLUTIONS = Path(__file__).parent / "solutions"
TRIALS, TIMED_CALLS = 5, 100
NO_ANSWER = (None, "infrastructure", "unsupported", "task_refused", "compile_failed")
BUILD_TIMEOUT_S, RUN_TIMEOUT_S = 300, 120


@dataclass(frozen=True)
class Solution:
    """One file of SOLUTIONS, the task it is for, and whether it is right."""

    name: str
    level: int
    problem: int
    right: bool

    @property
    def path(self) -> Path:
        """Its source."""
        return SOLUTIONS / f"{self.name}.py"


TABLE = (
    Solution("square_matmul", 1, 1, True),
    Solution("square_matmul_transposed", 1, 1, False),
    Solution("diagonal", 1, 12, True),
    Solution("diagonal_last_row_missing", 1, 12, False),
    Solution("diagonal_by_four", 1, 12, True),
    Solution("diagonal_squared", 1, 12, False),
    Solution("layer_norm", 1, 40, True),
    Solution("layer_norm_epsilon", 1, 40, False),
    Solution("gemm_sum", 2, 14, True),
    Solution("gemm_sum_race", 2, 14, False),
    Solution("gelu_softmax", 2, 99, True),
    Solution("gelu_softmax_without_gelu", 2, 99, False),
)


# ---- in processes of their own ---------------------------------------------------------------------------------


def evaluator(repo: Path) -> ModuleType:
    """KernelBench's `eval` module, as it stands in `repo`."""
    # The package's own __init__ loads clients of language models, which evaluation has no use for.
    package = ModuleType("kernelbench")
    package.__path__ = [str(repo / "src" / "kernelbench")]
    sys.modules["kernelbench"] = package
    return importlib.import_module("kernelbench.eval")


def build_theirs(solution: Solution, args: argparse.Namespace) -> dict:
    """Build as KernelBench does ahead of evaluation."""
    folder = args.work / solution.name
    folder.mkdir(parents=True, exist_ok=True)
    done, _, error = evaluator(args.kernelbench_repo).build_compile_cache(
        solution.path.read_text(), build_dir=str(folder)
    )
    return {"built": done, "why": str(error or "")[-300:]}


def run_theirs(solution: Solution, args: argparse.Namespace) -> dict:
    """One evaluation by KernelBench."""
    import torch

    from warpsmith.tasks import load

    task = load(f"kernelbench:{args.kernelbench}#{solution.level}/{solution.problem}")
    found = evaluator(args.kernelbench_repo).eval_kernel_against_ref(
        original_model_src=task.code,
        custom_model_src=solution.path.read_text(),
        num_correct_trials=TRIALS,
        num_perf_trials=TIMED_CALLS,
        measure_performance=True,
        build_dir=str(args.work / solution.name),
        device=torch.device("cuda:0"),
    )
    if found is None:
        return {"compiled": False, "correct": False, "why": "the evaluator gave no result"}
    measured = found.correctness and found.runtime > 0 and found.ref_runtime > 0
    return {
        "compiled": found.compiled,
        "correct": found.correctness,
        "runtime_ms": found.runtime if measured else None,
        "speedup": round(found.ref_runtime / found.runtime, 3) if measured else None,
        "why": {k: str(v)[:200] for k, v in found.metadata.items() if k not in ("hardware", "device")},
    }


def build_ours(solution: Solution, args: argparse.Namespace) -> dict:
    """Build as `warpsmith judge` will."""
    from warpsmith.cli import wiring
    from warpsmith.types import CompileStatus, Device
    from warpsmith.workspace import load_submission

    bench = wiring.bench(Device.CUDA, lambda phase, what: None)
    result = bench.compiler.build(load_submission(str(solution.path)), bench.target)
    return {"built": result.status is CompileStatus.OK, "why": result.log[-300:]}


STEPS = {step.__name__: step for step in (build_theirs, build_ours, run_theirs)}


# ---- the comparison --------------------------------------------------------------------------------------------


def step(name: str, solution: Solution, args: argparse.Namespace) -> dict:
    """One of STEPS in a fresh process: its answer, and the seconds that it took."""
    answer = args.work / f"{name}-{solution.name}.json"
    argv = [sys.executable, __file__, "--step", name, "--only", solution.name, "--out", str(answer)]
    argv += ["--kernelbench-repo", str(args.kernelbench_repo), "--kernelbench", str(args.kernelbench)]
    argv += ["--work", str(args.work)]
    return timed(argv, answer, BUILD_TIMEOUT_S if name.startswith("build") else RUN_TIMEOUT_S)


def timed(argv: list[str], answer: Path | None, timeout_s: float) -> dict:
    """The JSON object that a command writes to `answer`, or prints, with its wall seconds."""
    start = time.perf_counter()
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s)
        text = answer.read_text() if answer and answer.exists() else "" if answer else done.stdout
        found = json.loads(text) if text.strip() else {"failed": done.stderr[-500:]}
    except subprocess.TimeoutExpired:
        found = {"failed": f"no end after {timeout_s} s"}
    return found | {"seconds": round(time.perf_counter() - start, 2)}


def judge_ours(solution: Solution, args: argparse.Namespace) -> dict:
    """One `warpsmith judge`."""
    task = f"kernelbench:{args.kernelbench}#{solution.level}/{solution.problem}"
    argv = [sys.executable, "-m", "warpsmith", "judge", task, str(solution.path), "--device", "cuda"]
    argv += ["--rules", "practical", "--baselines", "paper", "--json"]
    verdict = timed(argv, None, RUN_TIMEOUT_S)
    return {key: verdict.get(key) for key in ("status", "speedup", "detail", "failed", "seconds")}


def row(solution: Solution, built: dict, theirs: dict, args: argparse.Namespace) -> dict:
    """Both sides' answers on one solution."""
    ours = judge_ours(solution, args)
    ours_said = _answer(ours["status"] == "passed", ours["status"] not in NO_ANSWER)
    said = _answer(theirs.get("correct"), bool(theirs.get("compiled"))), ours_said
    print(
        f"{solution.name:28} right {solution.right!s:5} theirs {said[0]!s:5} ours {ours['status']}",
        flush=True,
    )
    return asdict(solution) | {
        "theirs": theirs | {"build": built["build_theirs"]},
        "ours": ours | {"build": built["build_ours"]},
        "agree": said[0] is not None and said[0] is said[1],
        "theirs_right": said[0] is solution.right,
        "ours_right": said[1] is solution.right,
    }


def _answer(correct: bool, judged: bool) -> bool | None:
    """None where nothing was said of the solution's correctness."""
    return correct if judged else None


def compare(args: argparse.Namespace) -> None:
    """Build everything, then theirs, then ours, one solution after another."""
    chosen = [s for s in TABLE if args.only in (None, s.name)]
    jobs = [(name, s) for name in ("build_theirs", "build_ours") for s in chosen]
    start = time.perf_counter()
    with ThreadPoolExecutor(args.workers) as workers:
        built = list(workers.map(lambda job: step(*job, args), jobs))
    found = {(name, s.name): answer for (name, s), answer in zip(jobs, built, strict=True)}
    building_s = round(time.perf_counter() - start, 1)
    with ThreadPoolExecutor(args.theirs_at_once) as workers:
        theirs = list(workers.map(lambda s: step("run_theirs", s, args), chosen))
    rows: list[dict] = []
    for solution, answer in zip(chosen, theirs, strict=True):
        built_both = {n: found[n, solution.name] for n in ("build_theirs", "build_ours")}
        rows.append(row(solution, built_both, answer, args))
        totals = {key: sum(r[key] for r in rows) for key in ("agree", "theirs_right", "ours_right")}
        totals |= {"theirs_at_once": args.theirs_at_once, "building_s": building_s}
        save(args.out, solutions=len(rows), **totals, rows=rows)
    print(json.dumps({"solutions": len(rows)} | totals))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernelbench-repo", type=Path, required=True)
    parser.add_argument("--kernelbench", type=Path, required=True, help="JSONL of its tasks")
    parser.add_argument("--out", type=Path, default=RESULTS / "kernelbench_evaluator.json")
    parser.add_argument(
        "--theirs-at-once",
        type=int,
        default=1,
        help="above 1 their times disturb each other; correctness does not",
    )
    parser.add_argument("--only", choices=[s.name for s in TABLE])
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.step:
        solution = next(s for s in TABLE if s.name == args.only)
        args.out.write_text(json.dumps(STEPS[args.step](solution, args)))
        return
    args.kernelbench, args.kernelbench_repo = args.kernelbench.resolve(), args.kernelbench_repo.resolve()
    with tempfile.TemporaryDirectory(prefix="warpsmith-evaluator-") as work:
        args.work = Path(work)
        compare(args)


if __name__ == "__main__":
    main()
