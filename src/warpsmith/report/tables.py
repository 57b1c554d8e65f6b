"""The report's tables as Markdown and CSV."""

import csv
import io
from collections.abc import Iterator, Sequence

from warpsmith.evaluation.compare import Paired
from warpsmith.report.html import PROTOCOLS, machines
from warpsmith.report.published import PUBLISHED_NAME, published
from warpsmith.report.rows import TaskRow
from warpsmith.report.totals import LEVELS, of_level, totals

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def tables_markdown(rows: Sequence[TaskRow], title: str, compared: Sequence[Paired] = ()) -> str:
    """Results beside the published ones, the comparison if any, then every task that did not pass."""
    return "\n".join([f"# {_plain(title)}", "", *_markdown(rows, compared)]) + "\n"


def tables_csv(rows: Sequence[TaskRow]) -> str:
    """One line a task; a cell that a spreadsheet would run is quoted with an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    ratios = [(p, s) for p in PROTOCOLS for s in ("eager", "compile")] + [("matched", "best")]
    writer.writerow(
        ["level", "problem", "task", "status", *(f"{p}_vs_{s}" for p, s in ratios),
         "candidate_ms", "rel_error", "floor_share", "turns", "detail"]
    )  # fmt: skip
    for row in rows:
        v, task = row.verdict, row.task
        cells = [
            task.level if task else None, task.problem_id if task else None, row.name, row.status,
            *(row.ratio(p, s) for p, s in ratios),
            v.timings.candidate.median_ms if v and v.timings else None, v.error.rel if v and v.error else None,
            v.floor.share if v and v.floor else None, len(row.episode.turns) if row.episode else None,
            v.detail if v else "",
        ]  # fmt: skip
        writer.writerow([f"'{c}" if isinstance(c, str) and c.startswith(_FORMULA) else c for c in cells])
    return out.getvalue()


def _markdown(rows: Sequence[TaskRow], compared: Sequence[Paired]) -> Iterator[str]:
    found = machines(rows)
    yield f"{len(rows)} tasks; {'; '.join(found) or 'nothing judged'}"
    if len(found) > 1:
        yield "\n**Verdicts of different machines or rules are mixed here: compare with care.**"
    yield "\n| level | whose | tasks | pass % | > eager % | > compile % | geomean vs eager | vs compile |"
    yield "|---|---|---|---|---|---|---|---|"
    for level in LEVELS:
        ours, name = of_level(rows, level), "all" if level is None else str(level)
        if ours and (paper := published(level)):
            yield _row(name, PUBLISHED_NAME, None, *paper.model_dump().values())
        for protocol in PROTOCOLS:
            if line := totals(ours, protocol):
                yield _row(name, f"these runs, {protocol}", *line.model_dump().values())
    if compared:
        yield "\n| against the other run | tasks | other | this | difference | 95 % interval | |"
        yield "|---|---|---|---|---|---|---|"
    for p in compared:
        told = "significant" if p.significant else "within noise"
        yield _row(p.name, p.tasks, p.first, p.second, p.difference, f"{p.low:.4g} … {p.high:.4g}", told)
    failed = [row for row in rows if not row.passed]
    if failed:
        yield "\n| not passed | status | detail |"
        yield "|---|---|---|"
    for row in failed:
        yield _row(_plain(row.name), row.status, _plain(row.verdict.detail if row.verdict else ""))


def _row(*cells: object) -> str:
    texts = ("–" if c is None else f"{c:.4g}" if isinstance(c, float) else str(c) for c in cells)
    return "| " + " | ".join(texts) + " |"


def _plain(text: str) -> str:
    flat = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return "".join(f"\\{c}" if c in "\\|`*_[]@#!" else c for c in flat)[:400]
