"""Verdicts on variants of one task, side by side."""

from collections.abc import Iterator, Sequence
from typing import Any

from warpsmith.report.verdict_text import milliseconds, ratio, summary
from warpsmith.reward import reward_of
from warpsmith.types import Status, TimeStats, Verdict

HEADER = ("variant", "status", "p50", "p99", "× eager", "× compile", "× matched")


def variant_lines(judged: Sequence[tuple[str, Verdict]]) -> Iterator[str]:
    """A table: one line a variant, times of one call of the candidate."""
    rows = [HEADER, *(_cells(label, verdict) for label, verdict in judged)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADER))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    for label, verdict in judged:
        if verdict.detail and verdict.status is not Status.PASSED:
            yield f"{label}: {verdict.detail}"


def variants_summary(judged: Sequence[tuple[str, Verdict]]) -> list[dict[str, Any]]:
    """What `--json` prints: the summary of each verdict, its variant and its times in ms."""
    return [
        summary(verdict, reward_of(verdict)) | {"variant": label, "latency_ms": _latency(verdict)}
        for label, verdict in judged
    ]


def _cells(label: str, verdict: Verdict) -> tuple[str, ...]:
    stats = verdict.timings.candidate if verdict.timings else None
    paper = verdict.speedup.paper if verdict.speedup else None
    matched = verdict.speedup.matched if verdict.speedup else None
    return (
        label,
        verdict.status.value,
        milliseconds(stats.median_ms if stats else None),
        milliseconds(stats.p99_ms if stats else None),
        ratio(paper.eager) if paper else "–",
        ratio(paper.compile) if paper else "–",
        ratio(matched.best) if matched else "–",
    )


def _latency(verdict: Verdict) -> dict[str, dict[str, float | None]] | None:
    if verdict.timings is None:
        return None
    timings = verdict.timings
    named = {"candidate": timings.candidate, "eager": timings.eager, "compile": timings.compile}
    return {name: _quantiles(stats) for name, stats in named.items() if stats is not None}


def _quantiles(stats: TimeStats) -> dict[str, float | None]:
    return {"p25": stats.p25_ms, "p50": stats.median_ms, "p75": stats.p75_ms, "p99": stats.p99_ms}
