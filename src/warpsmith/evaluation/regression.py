"""A repository's own kernels against a stored baseline: what is wrong, and what became slower than noise allows."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from xml.etree import ElementTree

from pydantic import Field, ValidationError

from warpsmith.errors import UsageError
from warpsmith.store import write_atomic
from warpsmith.store.files import refused
from warpsmith.types import STATUS_TABLE, Record, Status, TimeStats, Verdict

MIN_BAND = 0.03
"""Two medians of one unchanged kernel differ by up to this share between processes."""
_XML_SAFE = {9, 10, 13}


class KeptTime(Record):
    """What a kernel took when the baseline was stored."""

    median_ms: float = Field(gt=0, allow_inf_nan=False)
    p25_ms: float = Field(gt=0, allow_inf_nan=False)
    p75_ms: float = Field(gt=0, allow_inf_nan=False)
    gpu: str | None = None


class BaselineFile(Record):
    """Times by case name; lies in the repository."""

    schema_version: int = 1
    cases: dict[str, KeptTime] = Field(default_factory=dict)


class Change(StrEnum):
    """What became of a case."""

    WRONG = "wrong"
    UNJUDGED = "unjudged"
    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"
    NEW = "new"
    UNTIMED = "untimed"
    OTHER_GPU = "other_gpu"


class CaseResult(Record):
    """One case of a check: `ratio` is its time over the stored one, `band` the share that noise may be."""

    name: str
    change: Change
    status: Status
    detail: str = ""
    median_ms: float | None = None
    stored_ms: float | None = None
    ratio: float | None = None
    band: float | None = None
    vs_eager: float | None = None
    vs_compile: float | None = None

    @property
    def failed(self) -> bool:
        """Whether the check fails because of it."""
        return self.change in (Change.WRONG, Change.UNJUDGED, Change.SLOWER)


def read_baseline(path: Path) -> BaselineFile:
    """The stored baseline; an empty one where the file is not there. Raises UsageError where it is something else."""
    try:
        return BaselineFile.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return BaselineFile()
    except OSError as error:
        raise refused("read", path, error) from error
    except ValidationError as error:
        raise UsageError(
            f"{path} is not a baseline file", hint="write one anew with --update, or name another"
        ) from error


def write_baseline(path: Path, old: BaselineFile, judged: Iterable[tuple[str, Verdict]]) -> BaselineFile:
    """Replaces the times of cases that passed and were timed; others stay as they were."""
    cases = dict(old.cases)
    for name, verdict in judged:
        if verdict.status is Status.PASSED and verdict.timings:
            stats = verdict.timings.candidate
            gpu = verdict.machine.gpu if verdict.machine else None
            cases[name] = KeptTime(
                median_ms=stats.median_ms, p25_ms=stats.p25_ms, p75_ms=stats.p75_ms, gpu=gpu
            )
    new = BaselineFile(cases=dict(sorted(cases.items())))
    write_atomic(path, new.model_dump_json(indent=2) + "\n")
    return new


def compared(
    name: str, verdict: Verdict, stored: KeptTime | None, *, min_band: float = MIN_BAND
) -> CaseResult:
    """One case against its stored time; slower or faster only beyond the noise band."""
    speed = verdict.speedup.paper if verdict.speedup else None
    stats = verdict.timings.candidate if verdict.timings else None
    change, ratio, band = _change(verdict, stats, stored, min_band)
    return CaseResult(
        name=name,
        change=change,
        status=verdict.status,
        detail=verdict.detail,
        median_ms=stats.median_ms if stats else None,
        stored_ms=stored.median_ms if stored else None,
        ratio=ratio,
        band=band,
        vs_eager=speed.eager if speed else None,
        vs_compile=speed.compile if speed else None,
    )


def noise_band(stats: TimeStats, stored: KeptTime, min_band: float = MIN_BAND) -> float:
    """The larger of `min_band` and the two half quartile spreads added up, each as a share of its median."""
    now = (stats.p75_ms - stats.p25_ms) / (2 * stats.median_ms)
    then = (stored.p75_ms - stored.p25_ms) / (2 * stored.median_ms)
    return max(min_band, now + then)


def _change(
    verdict: Verdict, stats: TimeStats | None, stored: KeptTime | None, min_band: float
) -> tuple[Change, float | None, float | None]:
    if verdict.status is not Status.PASSED:
        return (Change.UNJUDGED if STATUS_TABLE[verdict.status].retried else Change.WRONG), None, None
    if stats is None:
        return Change.UNTIMED, None, None
    if stored is None:
        return Change.NEW, None, None
    if stored.gpu != (verdict.machine.gpu if verdict.machine else None):
        return Change.OTHER_GPU, None, None
    ratio, band = stats.median_ms / stored.median_ms, noise_band(stats, stored, min_band)
    if ratio > 1 + band:
        return Change.SLOWER, ratio, band
    return (Change.FASTER if ratio < 1 / (1 + band) else Change.SAME), ratio, band


def junit(results: Sequence[CaseResult], seconds: float) -> str:
    """A JUnit file: a test case each; a wrong or slower one is a failure, an unjudged one an error."""
    suite = ElementTree.Element(
        "testsuite",
        name="warpsmith",
        tests=str(len(results)),
        failures=str(sum(r.failed and r.change is not Change.UNJUDGED for r in results)),
        errors=str(sum(r.change is Change.UNJUDGED for r in results)),
        time=f"{seconds:.3f}",
    )
    for result in results:
        case = ElementTree.SubElement(suite, "testcase", classname="warpsmith", name=_xml(result.name))
        if result.failed:
            kind = "error" if result.change is Change.UNJUDGED else "failure"
            told = ElementTree.SubElement(case, kind, type=result.change.value, message=_xml(said(result)))
            told.text = _xml(result.detail)
    root = ElementTree.Element("testsuites")
    root.append(suite)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def said(result: CaseResult) -> str:
    """What became of a case, in one line."""
    if result.change in (Change.WRONG, Change.UNJUDGED):
        return f"{result.status.value}: {result.detail}"
    if result.ratio is None or result.band is None:
        return {
            Change.NEW: "no stored time",
            Change.OTHER_GPU: "stored on another GPU: not compared",
        }.get(result.change, "correct; no time was measured")
    return f"{result.ratio:.3f} of the stored time (noise band {result.band:.1%})"


def ci_markdown(results: Sequence[CaseResult]) -> str:
    """A summary for a pull request."""
    bad = sum(r.failed for r in results)
    lines = [f"### warpsmith: {len(results) - bad} of {len(results)} kernels good", ""]
    lines += [
        "| kernel | result | time | stored | vs eager | vs compile | |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in results:
        mark = "❌" if r.failed else "✅"
        cells = (
            _cell(r.name), f"{mark} {r.change.value}", _ms(r.median_ms), _ms(r.stored_ms),
            _times(r.vs_eager), _times(r.vs_compile), _cell(said(r)),
        )  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g} ms"


def _times(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}×"


def _cell(text: str) -> str:
    """Text of a candidate inside a table: neither ends a cell nor becomes markup."""
    flat = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return "".join(f"\\{c}" if c in "\\|`*_[]@#!" else c for c in flat)[:400]


def _xml(text: str) -> str:
    """XML 1.0 has no control characters and no surrogates."""
    return "".join(
        c
        if ord(c) in _XML_SAFE or 0x20 <= ord(c) < 0xD800 or 0xE000 <= ord(c) < 0xFFFE or ord(c) > 0xFFFF
        else "?"
        for c in text
    )
