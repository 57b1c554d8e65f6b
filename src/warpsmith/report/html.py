"""One self-contained page about runs: no network, nothing of a candidate's text unescaped."""

import base64
import hashlib
import html
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.resources import files

from warpsmith.evaluation.metrics import by_series, fast_p_curve
from warpsmith.evaluation.row import Against, Row
from warpsmith.report.charts import curve, scatter
from warpsmith.report.html_task import task_id, task_section
from warpsmith.report.rows import TaskRow
from warpsmith.report.table import Table
from warpsmith.report.tables import covered, warnings
from warpsmith.types import Status

esc = html.escape
LATER = ("causes", "missing")
"""Tables that stand under the failures, not under the results."""


def page(rows: Sequence[TaskRow], title: str, figures: Sequence[Table]) -> str:
    """The whole page. Its policy lets the page's own script and styles run and nothing else, and no network."""
    css, script = (
        files("warpsmith.report").joinpath("page", name).read_text("utf-8")
        for name in ("page.css", "page.js")
    )
    policy = (
        f"default-src 'none'; style-src 'sha256-{_digest(css)}'; script-src 'sha256-{_digest(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    sections = [
        '<section id="results">', *(_table(t) for t in figures if t.key not in LATER), "</section>",
        '<section id="charts"><h2>Speed, error, floor</h2><div class="charts">', *_charts(rows), "</div></section>",
        '<section id="failures"><h2>Failures and cheats</h2>', *_failures(rows),
        *(_table(t) for t in figures if t.key in LATER), "</section>",
        '<section id="all"><h2>Tasks</h2>', *_task_table(rows), "</section>",
        '<section id="details"><h2>Each task</h2>',
        *(task_section(row, i) for i, row in enumerate(rows)), "</section>",
    ]  # fmt: skip
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" '
        f'content="{policy}"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{esc(title)}</title><style>{css}</style></head><body>"
        '<nav><a href="#results">Results</a><a href="#charts">Charts</a><a href="#failures">Failures</a>'
        '<a href="#all">Tasks</a><a href="#details">Details</a></nav>'
        f"<header><h1>{esc(title)}</h1>{_above(rows)}</header><main>{''.join(sections)}</main>"
        f"<script>{script}</script></body></html>\n"
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _above(rows: Sequence[TaskRow]) -> str:
    said = "".join(f'<p class="warning">Compare with care: {esc(line)}.</p>' for line in warnings(rows))
    return f'<p class="dim">{esc(covered(rows))}</p>{said}'


def _table(table: Table) -> str:
    heads = "".join(
        f'<th scope="col"{"" if table.is_text(i) else _NUM}>{esc(head)}</th>'
        for i, head in enumerate(table.heads)
    )
    lines = "".join(
        f"<tr{' class=paper' if line.published else ''}>"
        + "".join(
            f"<td{_kind(table, i)}>{esc(cell) if table.is_text(i) else _cell(cell)}</td>"
            for i, cell in enumerate(line.cells)
        )
        + "</tr>"
        for line in table.lines
    )
    note = f'<p class="dim">{esc(table.note)}</p>' if table.note else ""
    return (
        f'<h2 id="table-{table.key}">{esc(table.title)}</h2>'
        f'<div class="scroll"><table class="{table.key}"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>{note}"
    )


_NUM = ' class="num"'


def _kind(table: Table, column: int) -> str:
    if column in table.wrapped:
        return ' class="wrap"'
    return "" if table.is_text(column) else _NUM


def _cell(text: str) -> str:
    """A figure with its interval set smaller under it."""
    value, bracket, ends = text.partition(" [")
    return f"{esc(value)}<small>{esc(ends.rstrip(']'))}</small>" if bracket else esc(text)


def _charts(rows: Sequence[TaskRow]) -> Iterator[str]:
    flat = [row.row for row in rows]
    timed = [(row, r) for row in rows if (r := row.ratio(Against.PAPER_EAGER)) is not None]
    errors = [(v.error.rel, r, row.name) for row, r in timed if (v := row.verdict) and v.error]
    yield scatter(errors, "relative error", "speed-up over eager")
    for against in (Against.PAPER_EAGER, Against.PAPER_COMPILE, Against.MATCHED_BEST):
        lines = {
            series: [(point.p, point.share) for point in fast_p_curve(of, against)]
            for series, of in by_series(flat).items()
        }
        known = {series: points for series, points in lines.items() if points}
        if known:
            yield curve(
                known, f"fast_p over {against.side}, {against.kind.value}: share right and > p times as fast"
            )
    floors = {series: _falling(of) for series, of in by_series(flat).items()}
    if any(floors.values()):
        known = {series: points for series, points in floors.items() if points}
        yield curve(known, "share of the byte floor, passes in falling order (1 is the floor)")


def _falling(rows: Sequence[Row]) -> list[tuple[float, float]]:
    shares = sorted((r.best.floor_share for r in rows if r.best and r.best.floor_share), reverse=True)
    return [(i + 1.0, min(share, 1.0)) for i, share in enumerate(shares)]


def _failures(rows: Sequence[TaskRow]) -> Iterator[str]:
    counts = Counter((row.status, row.row.series) for row in rows)
    whose = list(dict.fromkeys(row.row.series for row in rows))
    totals = Counter(row.status for row in rows)
    heads = "".join(f'<th class="num">{esc(name)}</th>' for name in whose)
    yield f'<div class="scroll"><table><thead><tr><th>outcome</th>{heads}</tr></thead>'
    for status, _ in totals.most_common():
        cells = "".join(f'<td class="num">{counts[status, name]}</td>' for name in whose)
        yield f"<tr><td>{esc(status)}</td>{cells}</tr>"
    yield "</table></div><h3>Cheat log</h3>"
    cheats = [
        (row, i, v) for i, row in enumerate(rows) for v in row.verdicts.values() if v.status is Status.CHEATED
    ]
    if not cheats:
        yield '<p class="dim">No submission was found cheating.</p>'
        return
    yield '<div class="scroll"><table><thead><tr><th>task</th><th>what was seen</th></tr></thead>'
    for row, i, verdict in cheats:
        yield f'<tr><td><a href="#{task_id(i)}">{esc(row.name)}</a></td>'
        yield f'<td class="wrap">{esc(verdict.detail)}</td></tr>'
    yield "</table></div>"


def _task_table(rows: Sequence[TaskRow]) -> Iterator[str]:
    whose = sorted({row.row.series for row in rows})
    yield '<div class="filters"><input id="words" type="search" placeholder="filter" aria-label="filter tasks">'
    yield _select("status", sorted({row.status for row in rows}))
    yield _select("level", sorted({str(row.level) for row in rows if row.level is not None}))
    yield _select("whose", whose if len(whose) > 1 else [], "run")
    yield f'<span id="count" class="dim" role="status">{len(rows)}</span></div>'
    yield '<div class="scroll"><table id="tasks"><thead><tr>'
    words = ("level", "task", "outcome", *(("whose",) if len(whose) > 1 else ()))
    figures = ("vs eager", "vs compile", "matched best", "rel. error", "of floor", "turns")
    for name in (*words, *figures):
        kind = "" if name in words[1:] else _NUM
        yield f'<th{kind} scope="col"><button type="button">{name}</button></th>'
    yield "</tr></thead><tbody>"
    for i, row in enumerate(rows):
        error = row.verdict.error.rel if row.verdict and row.verdict.error else None
        share = row.row.best.floor_share if row.row.best else None
        sides = (Against.PAPER_EAGER, Against.PAPER_COMPILE, Against.MATCHED_BEST)
        level, series = "" if row.level is None else str(row.level), esc(row.row.series)
        flagged = "; ".join((*row.row.unfit, *row.row.flags))
        flag = f' <abbr title="{esc(flagged)}">flagged</abbr>' if flagged else ""
        yield f'<tr data-status="{esc(row.status)}" data-level="{level}" data-whose="{series}">'
        yield f'<td class="num" data-v="{level}">{level}</td>'
        yield f'<td><a href="#{task_id(i)}">{esc(row.name)}</a>{flag}</td>'
        yield f'<td class="{"good" if row.passed else "bad"}">{esc(row.status)}</td>'
        yield f"<td>{series}</td>" if len(whose) > 1 else ""
        yield from (_value(value) for value in (*map(row.ratio, sides), error, share, row.row.turns))
        yield "</tr>"
    yield "</tbody></table></div>"


def _value(value: float | None) -> str:
    return f'<td class="num" data-v="{"" if value is None else json.dumps(value)}">' + (
        "–</td>" if value is None else f"{value:.3g}</td>"
    )


def _select(name: str, options: Sequence[str], word: str = "") -> str:
    """A choice among `options`; hidden where there is none to make."""
    hidden = "" if options else " hidden"
    inside = "".join(f"<option>{esc(option)}</option>" for option in options)
    anything = f'<option value="">any {word or name}</option>'
    return f'<select id="{name}" aria-label="{name}"{hidden}>{anything}{inside}</select>'
