"""A verdict in words and as the JSON summary of the command line."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from warpsmith.report.evidence_text import evidence_lines
from warpsmith.report.roofline_text import roofline_line
from warpsmith.types import (
    Accuracy,
    Device,
    InTurn,
    Reward,
    Speedup,
    Status,
    TimeStats,
    Timings,
    Verdict,
    baseline_name,
)


def summary(verdict: Verdict, reward: Reward) -> dict[str, Any]:
    """The object that `judge --json` prints; every key is always there."""
    return {
        "schema_version": verdict.schema_version,
        "status": verdict.status.value,
        "reward": reward.milestone,
        "device": verdict.device.value,
        "speedup": _speedup(verdict.speedup, verdict.accuracy) if verdict.speedup else None,
        "error": {"rel": verdict.error.rel, "max_abs": verdict.error.max_abs} if verdict.error else None,
        "detail": verdict.detail,
        "isolation": verdict.machine.isolation if verdict.machine else None,
    }


def _speedup(speedup: Speedup, accuracy: Accuracy | None) -> dict[str, Any]:
    return speedup.model_dump(mode="json") | {"accuracy": _accuracy(accuracy) if accuracy else None}


def _accuracy(accuracy: Accuracy) -> dict[str, Any]:
    """Errors by distribution, null where infinite, and the names of the modes that compete."""
    return {
        "oracle": accuracy.oracle,
        "candidate": _finite(accuracy.candidate),
        "modes": {m.mode: _finite(m.errors) for m in accuracy.modes},
        "competing": list(accuracy.competing()),
    }


def _finite(errors: Mapping[str, float]) -> dict[str, float | None]:
    return {name: error if math.isfinite(error) else None for name, error in errors.items()}


def headline(verdict: Verdict) -> str:
    """One line: the status, and what is known of speed."""
    if verdict.status is not Status.PASSED:
        return f"{verdict.status.value}: {verdict.detail}" if verdict.detail else verdict.status.value
    if verdict.device is Device.SIM:
        return "passed on the simulator: correct; nothing is known about speed"
    if verdict.speedup is None:
        return "passed: correct; not timed"
    return f"passed: {speedup_text(verdict.speedup)}"


def speedup_text(speedup: Speedup) -> str:
    """The speed-ups against default modes, and against modes of matched accuracy where measured."""
    paper = speedup.paper
    text = f"{ratio(paper.eager)} eager, {ratio(paper.compile)} torch.compile (default modes)"
    if speedup.matched is not None:
        matched = speedup.matched
        text += f"; accuracy-matched {ratio(matched.eager)} eager, {ratio(matched.compile)} torch.compile"
        if matched.best_baseline:
            text += f" (best {ratio(matched.best)}, against {matched.best_baseline})"
    return text


def ratio(value: float | None) -> str:
    """A speed-up for a person: three digits."""
    return "not measured" if value is None else f"{value:.3g}×"


def milliseconds(value: float | None) -> str:
    """A time for a person: four digits."""
    return "–" if value is None else f"{value:.4g} ms"


def verdict_lines(verdict: Verdict, reward: Reward) -> Iterator[str]:
    """The lines that `judge` prints for a person."""
    yield headline(verdict)
    if verdict.status is Status.PASSED and verdict.detail:
        yield f"  detail     {verdict.detail}"
    if verdict.error:
        where = f" at {verdict.error.where}" if verdict.error.where else ""
        yield f"  error      relative {verdict.error.rel:.2e}, largest {verdict.error.max_abs:.2e}{where}"
    for check in verdict.checks:
        if not check.passed:
            yield f"  check      {check.check} failed: {check.detail}"
    if verdict.timings:
        yield from _time_lines(verdict.timings)
    if verdict.accuracy:
        yield f"  accuracy   {accuracy_text(verdict.accuracy)}"
    if verdict.floor and verdict.floor.share is not None:
        floor = verdict.floor
        yield f"  byte floor {milliseconds(floor.floor_ms)}: the candidate stands at {floor.share:.0%} of it"
    if verdict.roofline:
        yield f"  roofline   {roofline_line(verdict.roofline)}"
    yield from evidence_lines(verdict)
    yield f"  reward     {'none' if reward.milestone is None else reward.milestone} ({reward.reason})"
    if verdict.machine:
        yield f"  machine    {machine_text(verdict)}"
    for note in verdict.notes:
        yield f"  note       {note}"
    if verdict.compile and verdict.status is Status.COMPILE_FAILED and verdict.compile.log:
        yield verdict.compile.log.rstrip()


def _time_lines(timings: Timings) -> Iterator[str]:
    yield f"  {'candidate':<10} {_spread(timings.candidate)}"
    for name, stats in _named(timings):
        yield f"  {name:<10} {_spread(stats)}"
    for again in timings.in_turn:
        yield f"  in turn    {in_turn_text(again)}"


def in_turn_text(again: InTurn) -> str:
    """A ratio near a threshold, measured in turn, with its interval."""
    name = baseline_name(again.mode, again.kind)
    return (
        f"{name} {milliseconds(again.baseline_ms)} beside the candidate's {milliseconds(again.candidate_ms)}: "
        f"{ratio(again.ratio)} ({again.low:.3g} to {again.high:.3g} in 95 of 100)"
    )


def accuracy_text(accuracy: Accuracy) -> str:
    """Errors against float64 in one line, on the distribution that tells modes apart best, and who competes."""
    competing = f"compared with {', '.join(accuracy.competing())}"
    if not accuracy.oracle:
        return f"oracle: unavailable ({accuracy.oracle_problem}); {competing}"
    shown = "zero-mean" if "zero-mean" in accuracy.candidate else next(iter(accuracy.candidate))
    modes = [f"{m.mode} {error_text(m.errors[shown])}" for m in accuracy.modes if shown in m.errors]
    told = f"candidate {error_text(accuracy.candidate[shown])}, {', '.join(modes)} against float64"
    return f"{told} on {shown} inputs; {competing}"


def error_text(error: float) -> str:
    """A relative error for a person: two digits."""
    return f"{error:.1e}"


def _named(timings: Timings) -> Iterator[tuple[str, TimeStats]]:
    """Baselines by name; those of PyTorch's default mode by their kind alone."""
    for mode, kind, stats in timings.baselines():
        default = stats is timings.eager or stats is timings.compile
        yield (kind.value if default else baseline_name(mode, kind)), stats


def machine_text(verdict: Verdict) -> str:
    """GPU or simulator, versions and isolation in one line."""
    machine = verdict.machine
    if machine is None:
        return "unknown"
    parts = [machine.gpu or ("CPU simulator" if machine.device is Device.SIM else "GPU")]
    named = (("driver", machine.driver), ("torch", machine.torch), ("CUDA", machine.cuda))
    parts += [f"{name} {value}" for name, value in (*named, ("Python", machine.python)) if value]
    return ", ".join([*parts, f"isolation {machine.isolation}"])


def _spread(stats: TimeStats) -> str:
    return (
        f"median {milliseconds(stats.median_ms)}, p25–p75 {milliseconds(stats.p25_ms)}–"
        f"{milliseconds(stats.p75_ms)}, {stats.calls} calls"
    )
