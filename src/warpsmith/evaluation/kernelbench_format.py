"""Results in KernelBench's own JSON: `eval_results.json`, and the baseline file that its analysis reads beside it.

`eval_results.json` maps a problem id to a list of samples, `runtime` in milliseconds and -1 where there is none;
a baseline file maps `level1` to file names to `{"mean": milliseconds}`. One pair a level, as its script wants.

Its analysis leaves out of every share a problem that the baseline file lacks. What did not pass has no baseline time
of ours, and would vanish from its fast_p: such a problem stands there with -1, of which no ratio is ever made.
"""

from collections.abc import Iterable
from typing import Any

from warpsmith.types import BaselineKind, Phase, Status, TaskRef, TimeStats, Verdict

NO_RUNTIME = -1.0
_BEFORE_LOADED = (Phase.ADMISSION, Phase.COMPILE, Phase.LOAD)


def eval_results(
    rows: Iterable[tuple[TaskRef, Verdict | None]], level: int
) -> dict[str, list[dict[str, Any]]]:
    """Samples by problem id for one level, numbered in the order given; tasks without a problem id are left out.

    A missing verdict, or one that is not `passed`, is incorrect and has no runtime: nothing missing counts as a win.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for task, verdict in rows:
        if task.level != level or task.problem_id is None:
            continue
        samples = found.setdefault(str(task.problem_id), [])
        samples.append(_sample(verdict, len(samples)))
    return found


def baseline_times(
    rows: Iterable[tuple[TaskRef, Verdict | None]], level: int, kind: BaselineKind = BaselineKind.EAGER
) -> dict[str, dict[str, dict[str, float]]]:
    """Times of PyTorch's default mode, eager or compile, by file name: the medians that our ratios are made of.

    A task of which no sample passed is there with -1; one that passed and was not timed is left out.
    """
    times: dict[str, dict[str, float]] = {}
    for task, verdict in rows:
        timings = verdict.timings if verdict else None
        stats = timings and (timings.eager if kind is BaselineKind.EAGER else timings.compile)
        if task.level != level or task.problem_id is None:
            continue
        if stats:
            times[file_name(task)] = _stats(stats)
        elif verdict is None or verdict.status is not Status.PASSED:
            times.setdefault(file_name(task), {"mean": NO_RUNTIME})
    return {f"level{level}": times}


def file_name(task: TaskRef) -> str:
    """`19_ReLU.py`, by which KernelBench names a problem."""
    name = task.name.removesuffix(".py")
    prefix = f"{task.problem_id}_"
    return f"{name}.py" if task.problem_id is None or name.startswith(prefix) else f"{prefix}{name}.py"


def _sample(verdict: Verdict | None, sample_id: int) -> dict[str, Any]:
    passed = verdict is not None and verdict.status is Status.PASSED
    stats = verdict.timings.candidate if verdict and passed and verdict.timings else None
    return {
        "sample_id": sample_id,
        "compiled": passed or (verdict is not None and verdict.phase not in _BEFORE_LOADED),
        "correctness": passed,
        "metadata": {
            "status": verdict.status.value if verdict else "missing",
            "hardware": (verdict.machine.gpu if verdict and verdict.machine else None) or "unknown",
            "detail": verdict.detail if verdict else "",
        },
        "runtime": stats.median_ms if stats else NO_RUNTIME,
        "runtime_stats": _stats(stats) if stats else {},
    }


def _stats(stats: TimeStats) -> dict[str, float]:
    """`mean` holds the median: that is what every ratio here is made of."""
    return {"mean": stats.median_ms, "min": stats.min_ms, "num_trials": stats.calls}
