"""What ran, in words: a line for the terminal, a table for the report."""

from collections.abc import Iterator

from warpsmith.types import Device, Evidence, OperatorSource, Verdict

SHOWN_KERNELS = 12
SHOWN_NAME = 100
_SOURCES = {
    OperatorSource.NATIVE: "in every call",
    OperatorSource.ONE_CALL: "in one call",
    OperatorSource.NONE: "not observed",
}


def evidence_lines(verdict: Verdict) -> Iterator[str]:
    """The line of the terminal; none for the simulator, where kernels are not observed."""
    if verdict.evidence is not None and verdict.device is Device.CUDA:
        yield f"  what ran   {evidence_line(verdict.evidence)}"


def evidence_line(evidence: Evidence) -> str:
    """Device time by origin, launches and time of a call; or why nothing is known."""
    if evidence.kernels_problem:
        return f"evidence: unavailable ({evidence.kernels_problem})"
    parts = [f"{kind.value} {share:.0%}" for kind, share in evidence.shares().items()] or ["no times"]
    if evidence.launches_per_call is not None:
        parts.append(f"{evidence.launches_per_call:g} launches a call")
    if evidence.device_ms is not None:
        parts.append(f"{evidence.device_ms:.4g} ms of device time by CUPTI")
    if evidence.differences:
        parts.append(f"calls differ: {evidence.differences[0]}")
    return ", ".join(parts)


def evidence_section(verdict: Verdict) -> Iterator[str]:
    """The section of `report.md`."""
    yield "## What ran"
    yield ""
    evidence = verdict.evidence
    if evidence is None:
        yield "Nothing was observed."
        return
    yield evidence_line(evidence) + "."
    if evidence.kernels:
        yield ""
        yield "| kernel | origin | runs a call | share of device time |"
        yield "|---|---|---|---|"
        for kernel in evidence.kernels[:SHOWN_KERNELS]:
            name = kernel.name[:SHOWN_NAME].replace("|", "\\|")
            share = "–" if kernel.share is None else f"{kernel.share:.1%}"
            yield f"| `{name}` | {kernel.kind.value} | {kernel.count / evidence.calls:.3g} | {share} |"
        if len(evidence.kernels) > SHOWN_KERNELS:
            yield ""
            yield f"{len(evidence.kernels) - SHOWN_KERNELS} more are in `verdict.json`."
    yield ""
    told = ", ".join(f"`{name}` × {count}" for name, count in evidence.operators.items()) or "none"
    why = f" ({evidence.operators_problem})" if evidence.operators_problem else ""
    yield f"Torch operators, {_SOURCES[evidence.operators_source]}{why}: {told}."
    for difference in evidence.differences:
        yield f"- between calls: {difference}"
