"""One self-contained page about runs: no network, nothing of a candidate's text unescaped."""

import base64
import hashlib
import html
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.resources import files

from warpsmith.evaluation.compare import Paired
from warpsmith.report.charts import curve, scatter
from warpsmith.report.html_task import task_id, task_section
from warpsmith.report.published import PUBLISHED_NAME, published
from warpsmith.report.rows import TaskRow
from warpsmith.report.totals import LEVELS, fast_p, of_level, totals
from warpsmith.types import Status

esc = html.escape
PROTOCOLS = ("paper", "matched")


def page(rows: Sequence[TaskRow], title: str, compared: Sequence[Paired] = ()) -> str:
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
        '<section id="table1"><h2>Results beside the published ones</h2>', *_table1(rows), "</section>",
        *_comparison(compared),
        '<section id="charts"><h2>Speed, error, floor</h2><div class="charts">', *_charts(rows), "</div></section>",
        '<section id="failures"><h2>Failures and cheats</h2>', *_failures(rows), "</section>",
        '<section id="all"><h2>Tasks</h2>', *_task_table(rows), "</section>",
        '<section id="details"><h2>Each task</h2>',
        *(task_section(row, i) for i, row in enumerate(rows)), "</section>",
    ]  # fmt: skip
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" '
        f'content="{policy}"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{esc(title)}</title><style>{css}</style></head><body>"
        '<nav><a href="#table1">Results</a><a href="#charts">Charts</a><a href="#failures">Failures</a>'
        '<a href="#all">Tasks</a><a href="#details">Details</a></nav>'
        f"<header><h1>{esc(title)}</h1>{_machines(rows)}</header><main>{''.join(sections)}</main>"
        f"<script>{script}</script></body></html>\n"
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def machines(rows: Sequence[TaskRow]) -> list[str]:
    """Every device, rule set and torch that verdicts were reached under; more than one makes figures incomparable."""
    found = Counter()
    for row in rows:
        if verdict := row.verdict:
            machine = verdict.machine
            where = (machine.gpu if machine else None) or verdict.device.value
            torch = f"torch {machine.torch}" if machine and machine.torch else "torch unknown"
            found[f"{where}, {torch}, {verdict.rules.value} rules"] += 1
    return [name for name, _ in found.most_common()]


def _machines(rows: Sequence[TaskRow]) -> str:
    found = machines(rows)
    mixed = '<p class="bad">Verdicts of different machines or rules are mixed here: compare with care.</p>'
    return f'<p class="dim">{len(rows)} tasks; {esc("; ".join(found) or "nothing judged")}</p>' + (
        mixed if len(found) > 1 else ""
    )


def _table1(rows: Sequence[TaskRow]) -> Iterator[str]:
    yield '<div class="scroll"><table><thead><tr><th>level</th><th>whose</th>'
    for name in ("tasks", "pass %", "> eager %", "> compile %", "geomean vs eager", "vs compile"):
        yield f'<th class="num">{esc(name)}</th>'
    yield "</tr></thead><tbody>"
    for level in LEVELS:
        ours = of_level(rows, level)
        if not ours:
            continue
        name = "all" if level is None else str(level)
        if paper := published(level):
            cells = (paper.pass_pct, paper.faster_eager_pct, paper.faster_compile_pct,
                     paper.geomean_eager, paper.geomean_compile)  # fmt: skip
            yield _tr((name, PUBLISHED_NAME), (None, *cells), "paper")
        for protocol in PROTOCOLS:
            if found := totals(ours, protocol):
                yield _tr((name, f"these runs, {protocol}"), tuple(found.model_dump().values()))
    yield '</tbody></table></div><p class="dim">Shares are of all tasks in these runs, failed and missing ones '
    yield "too; the paper's “all” is 250 tasks of levels 1–3. Faster means a ratio above 1. Geometric means are over "
    yield "passes that were timed.</p>"


def _tr(names: Sequence[str], values: Sequence[float | None], kind: str = "") -> str:
    cells = "".join(f"<td>{esc(n)}</td>" for n in names)
    cells += "".join(f'<td class="num">{"–" if v is None else f"{v:.4g}"}</td>' for v in values)
    return f'<tr class="{kind}">{cells}</tr>'


def _comparison(compared: Sequence[Paired]) -> Iterator[str]:
    if not compared:
        return
    yield '<section id="compared"><h2>Against the other run</h2><div class="scroll"><table><thead><tr><th></th>'
    yield "<th>tasks</th><th>other</th><th>this</th><th>difference</th><th>95 % interval</th><th></th></tr></thead>"
    for p in compared:
        told = "significant" if p.significant else "within noise"
        yield f"<tr><td>{esc(p.name)}</td><td>{p.tasks}</td><td>{p.first:.4g}</td><td>{p.second:.4g}</td>"
        yield f"<td>{p.difference:.4g}</td><td>{p.low:.4g} … {p.high:.4g}</td><td>{told}</td></tr>"
    yield '</table></div><p class="dim">Paired percentile bootstrap over the tasks that both have. '
    yield "Rows of geometric means give a ratio.</p></section>"


def _charts(rows: Sequence[TaskRow]) -> Iterator[str]:
    timed = [(row, r) for row in rows if (r := row.ratio("paper", "eager")) is not None]
    errors = [(v.error.rel, r, row.name) for row, r in timed if (v := row.verdict) and v.error]
    yield scatter(errors, "relative error", "speed-up over eager")
    yield curve(
        [(i / 10, fast_p(rows, "paper", i / 10)) for i in range(41)], "fast_p over eager, p from 0 to 4"
    )
    floors = [row.verdict.floor for row in rows if row.passed and row.verdict and row.verdict.floor]
    shares = sorted((floor.share for floor in floors if floor.share), reverse=True)
    if shares:
        points = [((i + 1), min(share, 1.0)) for i, share in enumerate(shares)]
        yield curve(points, "share of the byte floor, tasks in falling order (1 is the floor)")


def _failures(rows: Sequence[TaskRow]) -> Iterator[str]:
    counts = Counter(row.status for row in rows)
    yield '<div class="scroll"><table><thead><tr><th>outcome</th><th class="num">tasks</th></tr></thead>'
    yield from (f'<tr><td>{esc(s)}</td><td class="num">{n}</td></tr>' for s, n in counts.most_common())
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
    yield '<div class="filters"><input id="words" type="search" placeholder="filter" aria-label="filter tasks">'
    yield _select("status", sorted({row.status for row in rows}))
    yield _select("level", sorted({str(row.level) for row in rows if row.level is not None}))
    yield f'<span id="count" class="dim" role="status">{len(rows)}</span></div>'
    yield '<div class="scroll"><table id="tasks"><thead><tr>'
    heads = (
        "level",
        "task",
        "outcome",
        "vs eager",
        "vs compile",
        "matched best",
        "rel. error",
        "of floor",
        "turns",
    )
    for i, name in enumerate(heads):
        kind = ' class="num"' if i not in (1, 2) else ""
        yield f'<th{kind} scope="col"><button type="button">{name}</button></th>'
    yield "</tr></thead><tbody>"
    for i, row in enumerate(rows):
        v = row.verdict
        values = (
            row.ratio("paper", "eager"), row.ratio("paper", "compile"), row.ratio("matched", "best"),
            v.error.rel if v and v.error else None, v.floor.share if v and v.floor else None,
            len(row.episode.turns) if row.episode else None,
        )  # fmt: skip
        level = "" if row.level is None else str(row.level)
        mark = "good" if row.passed else "bad"
        yield f'<tr data-status="{esc(row.status)}" data-level="{level}">'
        yield f'<td class="num" data-v="{level}">{level}</td>'
        yield f'<td><a href="#{task_id(i)}">{esc(row.name)}</a></td><td class="{mark}">{esc(row.status)}</td>'
        yield from (_value(value) for value in values)
        yield "</tr>"
    yield "</tbody></table></div>"


def _value(value: float | None) -> str:
    return f'<td class="num" data-v="{"" if value is None else json.dumps(value)}">' + (
        "–</td>" if value is None else f"{value:.3g}</td>"
    )


def _select(name: str, options: Sequence[str]) -> str:
    inside = "".join(f"<option>{esc(option)}</option>" for option in options)
    return f'<select id="{name}" aria-label="{name}"><option value="">any {name}</option>{inside}</select>'
