"""The page: hostile text stays text, and what is shown is what was stored."""

import csv
import io
import re
from html.parser import HTMLParser
from pathlib import Path

from warpsmith.report.highlight import highlighted
from warpsmith.report.html import page
from warpsmith.report.rows import TaskRow
from warpsmith.report.tables import tables_csv, tables_markdown
from warpsmith.report.totals import fast_p, totals
from warpsmith.rollout.scripted import scripted_verdict
from warpsmith.types import (
    Device,
    ErrorStats,
    Machine,
    PaperSpeedup,
    Speedup,
    Status,
    Submission,
    Task,
    TimeStats,
    Timings,
)  # fmt: skip
from warpsmith.types.protocols import JudgeSettings

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&</pre></title>"


def row(
    name: str, eager: float | None, status: Status = Status.PASSED, level: int = 1, text: str = ""
) -> TaskRow:
    task = Task(name=name, code=f"# reference {text}\nclass Model: ...\n", level=level, problem_id=1)
    given = Submission(files={"model_new.py": f"# {text}\nx = '{text}'\n"})
    base = scripted_verdict(task, given, JudgeSettings(device=Device.CUDA), status, detail=text)
    fields: dict[str, object] = {"machine": Machine(device=Device.CUDA, gpu="X1", torch="2.13")}
    if eager is not None:
        time = TimeStats(calls=9, median_ms=1.0, p25_ms=0.9, p75_ms=1.1, min_ms=0.8, raw_median_ms=1.0,
                         null_ms=0.0, samples_ms=(0.9, 1.0, 1.0, 1.1))  # fmt: skip
        eager_time = time.model_copy(update={"median_ms": eager})
        fields["timings"] = Timings(candidate=time, eager=eager_time, compile=eager_time)
        fields["speedup"] = Speedup(paper=PaperSpeedup(eager=eager, compile=eager))
        fields["error"] = ErrorStats(rel=1e-4, max_abs=1e-3)
    verdict = base.model_copy(update=fields)
    return TaskRow(
        Path("run"), name, task, None, verdict, given, {verdict.content_hash: verdict}, transcript=text
    )


class Tags(HTMLParser):
    """Every element with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_hostile_text_stays_text_everywhere() -> None:
    rows = [row(EVIL, 2.0, text=EVIL), row(EVIL, None, Status.CHEATED, text=EVIL)]
    found = Tags(page(rows, EVIL)).found
    assert [tag for tag, _ in found].count("script") == 1
    assert not [tag for tag, _ in found if tag in ("img", "iframe", "link", "object", "base")]
    assert not [name for _, attributes in found for name in attributes if name.startswith("on")]
    assert all(a["href"].startswith("#") for tag, a in found if tag == "a" and a["href"])
    assert "<script" not in tables_markdown(rows, EVIL)


def test_nothing_is_loaded_from_a_network() -> None:
    text = page([row("t", 2.0)], "t")
    assert not re.search(r"https?:|url\(|@import|src=", text)
    assert "default-src 'none'" in text


def test_failed_and_missing_tasks_count_in_every_share() -> None:
    rows = [
        row("a", 4.0),
        row("b", 1.0),
        row("c", None, Status.WRONG),
        TaskRow(Path("r"), "d", None, None, None, None, {}),
    ]
    found = totals(rows, "paper")
    assert found is not None
    assert (found.tasks, found.pass_pct, found.faster_eager_pct, found.geomean_eager) == (4, 50, 25, 2)
    assert [fast_p(rows, "paper", p) for p in (0, 1, 4)] == [0.5, 0.25, 0]
    assert totals(rows, "matched").geomean_eager is None  # type: ignore[union-attr]


def test_the_papers_row_stands_beside_ours() -> None:
    text = tables_markdown([row("a", 4.0), row("b", 1.0)], "t")
    assert "| 1 | CUDA Agent (arXiv 2602.24286) | – | 100 | 99 | 97 | 2.48 | 1.87 |" in text
    assert "| 1 | these runs, paper | 2 | 100 | 50 | 50 | 2 | 2 |" in text


def test_a_spreadsheet_runs_nothing() -> None:
    cells = list(csv.DictReader(io.StringIO(tables_csv([row("=cmd()", 2.0)]))))
    assert cells[0]["task"] == "'=cmd()"
    assert cells[0]["paper_vs_eager"] == "2.0"


def test_highlighting_keeps_the_text() -> None:
    text = "if x < 1:  # <b>\n    return '&'\n"
    shown = highlighted(text)
    assert '<span class="kw">if</span>' in shown
    assert re.sub(r"<[^>]*>", "", shown) == "if x &lt; 1:  # &lt;b&gt;\n    return &#x27;&amp;&#x27;\n"
