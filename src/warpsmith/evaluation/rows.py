"""Rows made of stored runs. Imports no torch."""

import math
from collections.abc import Iterator, Mapping, Sequence

from pydantic import ValidationError

from warpsmith.evaluation.row import Against, Condition, Measured, Row, Score, State, checked
from warpsmith.reward import SpeedupKind
from warpsmith.rollout import RESUMABLE
from warpsmith.store import Manifest, RunReader
from warpsmith.types import (
    STATUS_TABLE,
    BaselineKind,
    Bound,
    Device,
    Episode,
    KernelKind,
    Status,
    Task,
    TimeStats,
    Verdict,
    baseline_name,
)

TAIL = 0.0125
"""Of each end of a median's interval: both medians' intervals hold together in 95 of 100 cases (Bonferroni)."""


def rows_of(run: RunReader, series: str = "") -> list[Row]:
    """Every task and sample that a run covers: finished, unfinished, and planned but never begun."""
    name = series or series_name(run)
    known = {verdict.content_hash: verdict for verdict in run.verdicts()}
    rows, done = [], set()
    for episode in run.episodes():
        task = task_of(run, episode)
        rows.append(_row(run, episode, task, known, name))
        hashes = {episode.task_hash, task.derived_from if task else None}
        done |= {(task_hash, episode.task_name, episode.sample) for task_hash in hashes}
    return checked([*rows, *_absent(run, name, done, begun=_begun(run, known), alone=not rows)])


def series_name(run: RunReader) -> str:
    """The policy, with the protocol and variant where the run names them."""
    manifest = run.manifest
    return ", ".join(part for part in (manifest.policy, manifest.protocol, manifest.variant) if part)


def score_of(verdict: Verdict) -> Score:
    """A verdict as metrics see it."""
    passed = verdict.status is Status.PASSED
    timings = verdict.timings if passed else None
    share = verdict.floor.share if passed and verdict.floor else None
    cheated = verdict.status is Status.CHEATED
    return Score(
        status=verdict.status,
        candidate_ms=timings.candidate.median_ms if timings else None,
        ratios=dict(_ratios(verdict)) if passed else {},
        floor_share=share if share and math.isfinite(share) else None,
        launch_bound=timings is not None and timings.candidate.launch_bound,
        compute_bound=verdict.roofline.bound is Bound.COMPUTE if verdict.roofline else None,
        library_share=_library_share(verdict),
        check=next((check.check for check in verdict.checks if cheated and not check.passed), ""),
    )


def _library_share(verdict: Verdict) -> float | None:
    shares = verdict.evidence.shares() if verdict.evidence else {}
    return shares.get(KernelKind.CUBLAS, 0.0) + shares.get(KernelKind.CUDNN, 0.0) if shares else None


def median_interval(samples: Sequence[float]) -> tuple[float, float] | None:
    """Ends of the median's interval by order statistics, free of any distribution; None of too few samples.

    The k-th smallest and k-th largest of n hold the median between them with probability 1 - 2·P(Bin(n, ½) < k)
    (David and Nagaraja, Order Statistics, 7.1): k is the largest for which each tail is at most `TAIL`.
    """
    ordered, below, k = sorted(samples), 0.0, 0
    while k < len(ordered):
        below += math.comb(len(ordered), k) / 2 ** len(ordered)
        if below > TAIL:
            break
        k += 1
    return (ordered[k - 1], ordered[-k]) if k else None


def _ratios(verdict: Verdict) -> Iterator[tuple[Against, Measured]]:
    speedup = verdict.speedup
    if speedup is None:
        return
    default = {side: baseline_name("default", BaselineKind(side)) for side in ("eager", "compile")}
    for against in Against:
        found = getattr(speedup, against.kind.value)
        ratio = getattr(found, against.side, None)
        if ratio is None:
            continue
        paper = against.kind is SpeedupKind.PAPER
        name = default[against.side] if paper else getattr(found, f"{against.side}_baseline")
        yield against, _measured(verdict, ratio, name)


def _measured(verdict: Verdict, ratio: float, baseline: str | None) -> Measured:
    timings = verdict.timings
    if timings is None or baseline is None:
        return Measured(ratio=ratio)
    for again in timings.in_turn:
        if baseline_name(again.mode, again.kind) == baseline:
            return Measured(ratio=ratio, low=min(again.low, ratio), high=max(again.high, ratio))
    times = {baseline_name(mode, kind): stats for mode, kind, stats in timings.baselines()}
    mine, theirs = _ends(timings.candidate), _ends(times.get(baseline))
    if mine is None or theirs is None:
        return Measured(ratio=ratio)
    return Measured(ratio=ratio, low=min(theirs[0] / mine[1], ratio), high=max(theirs[1] / mine[0], ratio))


def _ends(stats: TimeStats | None) -> tuple[float, float] | None:
    ends = median_interval(stats.samples_ms) if stats else None
    return ends if ends and ends[0] > 0 else None


def _row(
    run: RunReader, episode: Episode, task: Task | None, known: Mapping[str, Verdict], series: str
) -> Row:
    judged = [turn.verdict_hash for turn in episode.turns if turn.verdict_hash]
    chosen = episode.final_verdict_hash or (judged[-1] if judged else None)
    verdict = known.get(chosen) if chosen else None
    answer = known.get(episode.answer_verdict_hash) if episode.answer_verdict_hash else None
    state = State.JUDGED if verdict else State.NOTHING_SUBMITTED
    if episode.stop in RESUMABLE:
        state = State.UNFINISHED
    asked = [known[h] for h in dict.fromkeys((*judged, chosen, episode.answer_verdict_hash)) if h in known]
    seconds = [sum(s for phase, s in v.seconds.items() if phase != "compile") for v in asked]
    scored = state is State.JUDGED
    return Row(
        series=series,
        variant=run.manifest.variant,
        episode_id=episode.episode_id,
        task_hash=episode.task_hash,
        task_name=episode.task_name,
        level=task.level if task else None,
        problem_id=task.problem_id if task else None,
        sample=episode.sample,
        device=episode.device,
        condition=condition_of(verdict, run.manifest) if verdict else None,
        versions=_versions(run, verdict) if verdict else "",
        state=state,
        detail=verdict.detail if verdict and scored else _ending(episode),
        best=score_of(verdict) if verdict and scored else None,
        final=score_of(answer) if answer and scored else None,
        stop=episode.stop,
        left=_left(episode, verdict),
        turns=len(episode.turns),
        tokens=episode.usage.tokens if episode.usage else None,
        judge_seconds=math.fsum(seconds),
    )


def _left(episode: Episode, verdict: Verdict | None) -> tuple[str, ...]:
    """What the turn that wrote the scored submission left to PyTorch; without one, the last turn that tells."""
    wrote = [t.left for t in episode.turns if verdict and t.submission_hash == verdict.submission_hash]
    told = [turn.left for turn in episode.turns if turn.left] if verdict is None else []
    return next(iter([*wrote, *told[::-1]]), ())


def _ending(episode: Episode) -> str:
    """Why an episode has no score: how it ended, and what its last turn noted."""
    last = episode.turns[-1].note if episode.turns else ""
    return ": ".join(part for part in (episode.stop.value.replace("_", " "), " ".join(last.split())) if part)


def condition_of(verdict: Verdict, manifest: Manifest | None = None) -> Condition:
    """Under what a verdict was reached, in a run of this manifest."""
    gpu = verdict.machine.gpu if verdict.machine else None
    named = "simulator" if verdict.device is Device.SIM else gpu or "unknown GPU"
    protocol = manifest.protocol if manifest else ""
    menu = manifest.settings.get("baselines") if manifest else None
    return Condition(gpu=named, rules=verdict.rules, protocol=protocol, baselines=str(menu or ""))


def _versions(run: RunReader, verdict: Verdict) -> str:
    machine = verdict.machine
    named = [("driver", machine.driver), ("torch", machine.torch)] if machine else []
    judges = dict.fromkeys(session.pins.source[:8] for session in run.sessions() if session.pins)
    return ", ".join(f"{name} {value}" for name, value in (*named, ("judge", " or ".join(judges))) if value)


def task_of(run: RunReader, episode: Episode) -> Task | None:
    """The task that an episode worked on, where the store has it."""
    data = run.blob(episode.task_record_hash) if episode.task_record_hash else None
    try:
        return Task.model_validate_json(data) if data else None
    except ValidationError:
        return None


def _absent(
    run: RunReader, series: str, done: set[tuple[str | None, str, int]], *, begun: set[str], alone: bool
) -> Iterator[Row]:
    """Rows for what was planned and has no end; a run of one task has it in its only episode, if any."""
    manifest = run.manifest
    planned = [(t.task_hash, t.name, t) for t in manifest.tasks]
    if not planned and alone:
        planned = [(manifest.task_hash, manifest.task_name, None)]
    lost = {(failure.task_hash, failure.sample): failure.detail for failure in run.failures()}
    for task_hash, name, ref in planned:
        for sample in range(samples_of(run)):
            if (task_hash, name, sample) in done:
                continue
            why = lost.get((task_hash, sample))
            unfinished = why is not None or task_hash in begun
            yield Row(
                series=series,
                variant=manifest.variant,
                task_hash=task_hash,
                task_name=name,
                level=ref.level if ref else None,
                problem_id=ref.problem_id if ref else None,
                sample=sample,
                device=manifest.device,
                state=State.UNFINISHED if unfinished else State.MISSING,
                detail=why or "",
            )


def samples_of(run: RunReader) -> int:
    """Attempts at every task that the run's settings name; 1 where they name none."""
    samples = run.manifest.settings.get("samples")
    return samples if isinstance(samples, int) and samples > 0 else 1


def _begun(run: RunReader, known: Mapping[str, Verdict]) -> set[str]:
    """Hashes of tasks on which an episode without an end took a turn, or was stopped by the machine."""
    ended = {episode.episode_id for episode in run.episodes()}
    stopped = {v.task_hash for v in run.verdicts() if STATUS_TABLE[v.status].retried}
    open_turns = [turn for episode_id, turn in run.turns_by_episode() if episode_id not in ended]
    if open_turns and not run.manifest.tasks:
        return {run.manifest.task_hash}
    return stopped | {known[t.verdict_hash].task_hash for t in open_turns if t.verdict_hash in known}
