"""A verdict in words and as the JSON summary of the command line."""

from collections.abc import Iterator
from typing import Any

from warpsmith.types import Device, Reward, Speedup, Status, TimeStats, Verdict


def summary(verdict: Verdict, reward: Reward) -> dict[str, Any]:
    """The object that `judge --json` prints; every key is always there."""
    return {
        "schema_version": verdict.schema_version,
        "status": verdict.status.value,
        "reward": reward.milestone,
        "device": verdict.device.value,
        "speedup": verdict.speedup.model_dump(mode="json") if verdict.speedup else None,
        "error": {"rel": verdict.error.rel, "max_abs": verdict.error.max_abs} if verdict.error else None,
        "detail": verdict.detail,
    }


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
        named = (("candidate", verdict.timings.candidate), ("eager", verdict.timings.eager))
        for name, stats in (*named, ("compile", verdict.timings.compile)):
            if stats is not None:
                yield f"  {name:<10} {_spread(stats)}"
    if verdict.floor and verdict.floor.share is not None:
        floor = verdict.floor
        yield f"  byte floor {milliseconds(floor.floor_ms)}: the candidate stands at {floor.share:.0%} of it"
    yield f"  reward     {'none' if reward.milestone is None else reward.milestone} ({reward.reason})"
    if verdict.machine:
        yield f"  machine    {machine_text(verdict)}"
    for note in verdict.notes:
        yield f"  note       {note}"
    if verdict.compile and verdict.status is Status.COMPILE_FAILED and verdict.compile.log:
        yield verdict.compile.log.rstrip()


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
