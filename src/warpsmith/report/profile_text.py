"""Nsight Compute's measurements in words and as JSON: a section of their own beside the verdict."""

from collections.abc import Iterator
from typing import Any

from warpsmith.types import ProfileReport

_NAME_LENGTH = 80


def profile_lines(profile: ProfileReport) -> Iterator[str]:
    """What `judge --ncu` prints below the verdict."""
    if profile.problem:
        yield f"  ncu        not profiled: {_plain(profile.problem)}"
        return
    yield "  ncu        a mean launch of each kernel, those first that took the longest together:"
    for kernel in profile.kernels:
        name = _plain(kernel.kernel)
        shown = name if len(name) <= _NAME_LENGTH else name[: _NAME_LENGTH - 1] + "…"
        yield f"    {shown}, {kernel.launches} launch{'es' if kernel.launches > 1 else ''}"
        yield f"      {', '.join(kernel.figures()) or 'nothing was measured'}"
        if kernel.stalls:
            waits = ", ".join(f"{stall.reason} {stall.cycles:.1f}" for stall in kernel.stalls)
            yield f"      cycles waited an instruction: {waits}"


def profile_summary(profile: ProfileReport) -> dict[str, Any]:
    """The value of `ncu` in `judge --json --ncu`: `kernels`, and `problem`, null where there are any."""
    return profile.model_dump(mode="json") | {"problem": profile.problem or None}


def _plain(text: str) -> str:
    """On one line, without what moves a terminal's cursor: the submission may have written it."""
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))
