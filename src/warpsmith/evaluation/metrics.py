"""Figures over rows: shares, speed-ups, fast_p, pass@k, costs. Imports no torch.

Every task weighs the same, however many samples it has; a sample that is missing, unfinished or failed counts as not
passed in every share. docs/metrics.md has the formulas and says where each of them misleads.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from warpsmith.errors import UsageError
from warpsmith.evaluation.bootstrap import RESAMPLES, Estimate, Part, means
from warpsmith.evaluation.row import Against, Answer, Row, checked
from warpsmith.reward import SpeedupKind
from warpsmith.types import Device, Record

FAST_P = (0.0, 0.5, 0.8, 1.0, 1.5, 2.0)
"""The thresholds that KernelBench's analysis prints."""
CURVE = tuple(i / 20 for i in range(101))
"""Thresholds of a plotted curve, 0 to 5."""
LEVELS = (None, 1, 2, 3, 4)


class Side(Record):
    """Speed-ups over one side of a protocol's baselines. None: nothing of it was measured, which is not 0."""

    against: Against
    measured: int
    """Passes with a ratio, of all samples."""
    unmeasured: int
    """Passes without one; they count as not faster, and as 1.0 where failures do."""
    faster: Estimate | None
    """Share that passed with a ratio above 1."""
    clearly_faster: float | None
    """Share whose whole noise interval lies above 1."""
    tied: float | None
    """Share whose noise interval holds 1."""
    noise_unknown: int
    """Measured without an interval: neither tied nor clearly faster."""
    geomean: Estimate | None
    """Over correct solutions alone, as published."""
    geomean_failures_1: Estimate | None
    """Over everything, whatever did not pass as 1.0."""
    geomean_fallback: Estimate | None
    """Over everything, as if whoever loses kept the reference: max(1, ratio)."""


class Costs(Record):
    """Means over the samples for which the figure is known; None where it is for none."""

    turns: float | None
    tokens: float | None
    judge_seconds: float | None


class Summary(Record):
    """A line of a table."""

    kind: SpeedupKind
    answer: Answer
    tasks: int
    samples: int
    passed: Estimate
    outcomes: dict[str, int]
    """Samples by status, or by what became of them instead."""
    eager: Side
    compile: Side
    best: Side | None
    """Over the fastest competing baseline; `matched` alone has it."""
    floor_share: Estimate | None
    """Geometric mean over passes of the byte floor's share in the time."""
    costs: Costs


class FastP(Record):
    """A point of the curve: the share that passed and is more than `p` times as fast."""

    p: float
    share: float


def summary(
    rows: Sequence[Row],
    kind: SpeedupKind,
    answer: Answer = Answer.BEST,
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Summary:
    """The figures of one group of rows under one protocol. Raises UsageError for no rows, or one row twice."""
    tasks = _by_task(rows)
    sides = Against.of(kind)
    parts = {"passed": [_mean_part([float(r.passed(answer)) for r in of]) for of in tasks]}
    parts["floor"] = [_log_part([_floor(r, answer) for r in of]) for of in tasks]
    for against in sides:
        parts |= _side_parts(tasks, against, answer)
    found = means(parts, seed=seed, resamples=resamples)
    made = {against.side: _side(rows, against, answer, found, len(tasks)) for against in sides}
    passed = found["passed"]
    assert passed is not None  # every task has weight
    return Summary(
        kind=kind,
        answer=answer,
        tasks=len(tasks),
        samples=len(rows),
        passed=passed,
        outcomes=dict(Counter(_outcome(row, answer) for row in rows).most_common()),
        eager=made["eager"],
        compile=made["compile"],
        best=made.get("best"),
        floor_share=_exp(found["floor"]),
        costs=costs(rows),
    )


def by_level(rows: Sequence[Row]) -> dict[int | None, list[Row]]:
    """The rows of each level that there is, all of them under None first."""
    found = {level: [row for row in rows if level is None or row.level == level] for level in LEVELS}
    return {level: of_level for level, of_level in found.items() if of_level}


def by_series(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by who worked, in order of appearance."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.series, []).append(row)
    return found


def unflagged(rows: Sequence[Row]) -> list[Row]:
    """Rows of tasks that no check flagged or would refuse."""
    return [row for row in rows if not row.flags and not row.unfit]


def level_weighted(rows: Sequence[Row], against: Against, answer: Answer = Answer.BEST) -> float | None:
    """Geometric mean of the levels' own, each weighed by its tasks: "overall" in the published Table 1.

    It differs from the mean over all correct solutions where levels pass at different rates. None where a level has
    no correct and timed solution, or tasks have no level.
    """
    tasks = [(of[0].level, _log_part([m and m.ratio for r in of for m in (r.measured(against, answer),)]))
             for of in _by_task(rows)]  # fmt: skip
    logs: dict[int | None, list[Part]] = defaultdict(list)
    for level, part in tasks:
        logs[level].append(part)
    if None in logs or any(not any(weight for _, weight in parts) for parts in logs.values()):
        return None
    means_of = [(_mean([log for log, weight in parts if weight]), len(parts)) for parts in logs.values()]
    return math.exp(math.fsum(log * count for log, count in means_of) / len(tasks))


def fast_p(
    rows: Sequence[Row], p: float, against: Against = Against.PAPER_EAGER, answer: Answer = Answer.BEST
) -> float | None:
    """Share of all that is right and more than `p` times as fast (KernelBench, arXiv 2502.10517); None: not measured.

    With one sample a task this is their `fastp`, and at p = 0 the pass rate of what was timed.
    """
    if _unmeasured(rows, against, answer):
        return None
    shares = [
        _mean([float(m is not None and m.ratio > p) for m in (r.measured(against, answer) for r in of)])
        for of in _by_task(rows)
    ]
    return _mean(shares)


def fast_p_curve(
    rows: Sequence[Row],
    against: Against = Against.PAPER_EAGER,
    answer: Answer = Answer.BEST,
    thresholds: Sequence[float] = CURVE,
) -> tuple[FastP, ...]:
    """`fast_p` at each threshold; empty where nothing was measured."""
    found = [(p, fast_p(rows, p, against, answer)) for p in thresholds]
    return tuple(FastP(p=p, share=share) for p, share in found if share is not None)


def pass_at_k(rows: Sequence[Row], k: int, good: Callable[[Row], bool] = lambda row: row.passed()) -> float:
    """Mean over tasks of 1 - C(n - c, k) / C(n, k), n samples of which c are `good` (Chen et al., arXiv 2107.03374).

    The chance that of k samples drawn without replacement at least one is good: unbiased for k fresh samples.
    Raises UsageError where a task has fewer than k samples: nothing is known of what was not drawn.
    """
    tasks = _by_task(rows)
    if not 1 <= k <= min(map(len, tasks)):
        raise UsageError(
            f"pass@{k} needs from 1 to {min(map(len, tasks))} samples of every task",
            hint="draw more samples, or ask for a smaller k",
        )
    return _mean([_one_good(len(of), sum(map(good, of)), k) for of in tasks])


def costs(rows: Sequence[Row]) -> Costs:
    """What a sample took, on average."""
    columns = ([getattr(row, name) for row in rows] for name in Costs.model_fields)
    known = ([float(v) for v in column if v is not None] for column in columns)
    return Costs(**{n: _mean(v) if v else None for n, v in zip(Costs.model_fields, known, strict=True)})


def listed(rows: Sequence[Row]) -> list[Row]:
    """Rows of which nothing is known, in order of level, problem, name and sample: every report names them."""
    return sorted((row for row in rows if row.unanswered), key=order)


def order(row: Row) -> tuple[int, int, str, int]:
    """By level, problem, name and sample; tasks without a level last."""
    return (
        99 if row.level is None else row.level,
        0 if row.problem_id is None else row.problem_id,
        row.task_name,
        row.sample,
    )


# ---- parts ----------------------------------------------------------------------------------------------------


def _by_task(rows: Sequence[Row]) -> list[list[Row]]:
    """Samples by task, in an order that does not depend on the rows'."""
    if not rows:
        raise UsageError("there are no tasks", hint="give a run that planned some")
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in sorted(checked(rows), key=lambda row: (*row.task_key, row.series, row.sample)):
        found[row.task_key].append(row)
    return list(found.values())


def _unmeasured(rows: Sequence[Row], against: Against, answer: Answer) -> bool:
    if any(row.measured(against, answer) for row in rows):
        return False
    return any(row.passed(answer) for row in rows) or all(row.device is Device.SIM for row in rows)


def _side_parts(tasks: list[list[Row]], against: Against, answer: Answer) -> dict[str, list[Part]]:
    ratios = [[m.ratio if (m := r.measured(against, answer)) else None for r in of] for of in tasks]
    return {
        f"{against}.faster": [_mean_part([float(v is not None and v > 1) for v in of]) for of in ratios],
        f"{against}.correct": [_log_part(of) for of in ratios],
        f"{against}.ones": [_log_part([v or 1.0 for v in of]) for of in ratios],
        f"{against}.fallback": [_log_part([max(1.0, v or 1.0) for v in of]) for of in ratios],
    }


def _side(
    rows: Sequence[Row], against: Against, answer: Answer, found: dict[str, Estimate | None], tasks: int
) -> Side:
    seen = [(row, m) for row in rows if (m := row.measured(against, answer))]
    passes = sum(row.passed(answer) for row in rows)
    counts = {"measured": len(seen), "unmeasured": passes - len(seen)}
    unknown = sum(m.low is None for _, m in seen)
    if _unmeasured(rows, against, answer):
        nothing = dict.fromkeys(
            ("faster", "clearly_faster", "tied", "geomean", "geomean_failures_1", "geomean_fallback")
        )
        return Side(against=against, **counts, noise_unknown=0, **nothing)
    samples = Counter(row.task_key for row in rows)

    def share(chosen: list[Row]) -> float:
        return math.fsum(1 / samples[row.task_key] for row in chosen) / tasks

    return Side(
        against=against,
        **counts,
        faster=found[f"{against}.faster"],
        clearly_faster=share([row for row, m in seen if m.clearly_faster]),
        tied=share([row for row, m in seen if m.tied]),
        noise_unknown=unknown,
        geomean=_exp(found[f"{against}.correct"]),
        geomean_failures_1=_exp(found[f"{against}.ones"]),
        geomean_fallback=_exp(found[f"{against}.fallback"]),
    )


def _outcome(row: Row, answer: Answer) -> str:
    if answer is Answer.BEST or row.state.value != "judged":
        return row.outcome
    return row.final.status.value if row.final else "no final answer"


def _floor(row: Row, answer: Answer) -> float | None:
    score = row.score(answer)
    return score.floor_share if score else None


def _mean_part(values: Sequence[float]) -> Part:
    return _mean(values), 1.0


def _log_part(values: Sequence[float | None]) -> Part:
    known = [math.log(v) for v in values if v is not None]
    return (_mean(known), 1.0) if known else (0.0, 0.0)


def _exp(estimate: Estimate | None) -> Estimate | None:
    return estimate.mapped(math.exp) if estimate else None


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _one_good(n: int, c: int, k: int) -> float:
    return 1 - math.comb(n - c, k) / math.comb(n, k)
