"""The page: hostile text stays text, and what is shown is what was stored."""

import csv
import dataclasses
import io
import re
from html.parser import HTMLParser
from pathlib import Path

from tests.evaluation.tables import absent

from warpsmith.evaluation.row import Row, State
from warpsmith.evaluation.rows import condition_of, score_of
from warpsmith.report.figures import tables
from warpsmith.report.highlight import highlighted
from warpsmith.report.html import page
from warpsmith.report.rows import TaskRow
from warpsmith.report.tables import tables_csv, tables_markdown
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
    fields: dict[str, object] = {"machine": Machine(device=Device.CUDA, gpu="X1", torch="2.13")}
    if eager is not None:
        time = TimeStats(calls=9, median_ms=1.0, p25_ms=0.9, p75_ms=1.1, min_ms=0.8, raw_median_ms=1.0,
                         null_ms=0.0, samples_ms=(0.9, 1.0, 1.0, 1.1))  # fmt: skip
        eager_time = time.model_copy(update={"median_ms": eager})
        fields["timings"] = Timings(candidate=time, eager=eager_time, compile=eager_time)
        fields["speedup"] = Speedup(paper=PaperSpeedup(eager=eager, compile=eager))
        fields["error"] = ErrorStats(rel=1e-4, max_abs=1e-3)
    settings = JudgeSettings(device=Device.CUDA)
    verdict = scripted_verdict(task, given, settings, status, detail=text, **fields)
    flat = Row(
        series="scripted", task_hash=task.task_hash + name, task_name=name, level=level, device=Device.CUDA,
        condition=condition_of(verdict), versions="torch 2.13", state=State.JUDGED,
        best=score_of(verdict), detail=text,
    )  # fmt: skip
    return TaskRow(Path("run"), flat, task, None, verdict, given, {verdict.content_hash: verdict}, text)


def missing(name: str) -> TaskRow:
    return TaskRow(Path("run"), absent(name))


def shown(rows: list[TaskRow], title: str = "t") -> str:
    return page(rows, title, tables([r.row for r in rows]))


def markdown(rows: list[TaskRow], title: str = "t") -> str:
    return tables_markdown(rows, title, tables([r.row for r in rows]))


class Tags(HTMLParser):
    """Every element with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_hostile_text_stays_text_everywhere() -> None:
    rows = [row(EVIL, 2.0, text=EVIL), row(EVIL + "2", None, Status.CHEATED, text=EVIL)]
    lost = absent(EVIL).model_copy(update={"series": EVIL, "variant": "no-rft", "detail": EVIL})
    flagged = rows[0].row.model_copy(update={"flags": (EVIL,), "variant": EVIL})
    rows = [dataclasses.replace(rows[0], row=flagged), rows[1], TaskRow(Path("run"), lost)]
    found = Tags(shown(rows, EVIL)).found
    assert [tag for tag, _ in found].count("script") == 1
    assert not [tag for tag, _ in found if tag in ("img", "iframe", "link", "object", "base")]
    assert not [name for _, attributes in found for name in attributes if name.startswith("on")]
    assert all(a["href"].startswith("#") for tag, a in found if tag == "a" and a["href"])
    assert "<script" not in markdown(rows, EVIL)


def test_nothing_is_loaded_from_a_network() -> None:
    text = shown([row("t", 2.0)])
    assert not re.search(r"https?:|url\(|@import|src=", text)
    assert "default-src 'none'" in text


def test_failed_and_missing_tasks_count_in_every_share_and_are_named() -> None:
    rows = [row("a", 4.0), row("b", 1.0), row("c", None, Status.WRONG), missing("lost_one")]
    results, *_, last = tables([r.row for r in rows])
    ours = next(line.cells for line in results.lines if line.cells[:2] == ("1", "scripted: paper ratios"))
    assert ours[2:] == (
        "4", "50.0 [0.0–100.0]", "25.0 [0.0–75.0]", "25.0 [0.0–75.0]", "2.00 [1.00–4.00]", "2.00 [1.00–4.00]",
    )  # fmt: skip
    assert (last.key, [line.cells[1:5] for line in last.lines]) == (
        "missing",
        [("lost_one", "0", "scripted", "missing")],
    )
    assert "lost\\_one" in markdown(rows)
    # under its cause, among the unknown, in the task table, and in its own fold
    assert shown(rows).count("lost_one") == 4


def test_a_protocol_that_was_not_measured_shows_no_number() -> None:
    results = tables([row("a", 4.0).row])[0]
    ours = next(line.cells for line in results.lines if line.cells[:2] == ("1", "scripted: matched ratios"))
    assert ours[3:] == ("100.0 [100.0–100.0]", "–", "–", "–", "–")
    assert "0.0 [0.0–0.0]" not in markdown([row("a", 4.0)])


def test_the_papers_row_stands_beside_ours() -> None:
    text = markdown([row("a", 4.0), row("b", 4.0)])
    assert "| 1 | CUDA Agent (arXiv 2602.24286) | – | 100.0 | 99.0 | 97.0 | 2.48 | 1.87 |" in text
    ours = "| 1 | scripted: paper ratios | 2 |" + " 100.0 [100.0–100.0] |" * 3 + " 4.00 [4.00–4.00] |" * 2
    assert ours.replace("[", "\\[").replace("]", "\\]") in text


def test_ablations_stand_beside_the_published_ones() -> None:
    whole, cut = (
        row("a", 4.0).row,
        row("a", 2.0).row.model_copy(update={"series": "cut", "variant": "no-rft"}),
    )
    table = next(t for t in tables([whole, cut]) if t.key == "ablations")
    assert [line.cells[0] for line in table.lines if line.published] == [
        "single-turn", "raw-reward", "no-rft", "no-value-pretraining", "nothing left out",
    ]  # fmt: skip
    lines = {line.cells[:2]: line.cells for line in table.lines}
    assert lines["no-rft", "w/o RFT, CUDA Agent (arXiv 2602.24286)"][3:] == (
        "95.6", "82.0", "49.8", "1.56", "1.05",
    )  # fmt: skip
    assert lines["no-rft", "cut: paper ratios"][-1] == "2.00 [2.00–2.00]"
    assert lines["nothing left out", "scripted: paper ratios"][-1] == "4.00 [4.00–4.00]"


def test_what_is_mixed_is_said_on_the_page_and_in_markdown() -> None:
    other = row("b", 2.0)
    condition = other.row.condition.model_copy(update={"gpu": "X2"})  # type: ignore[union-attr]
    rows = [
        row("a", 2.0),
        dataclasses.replace(other, row=other.row.model_copy(update={"condition": condition})),
    ]
    for text in (shown(rows), markdown(rows)):
        assert "scripted mixes GPUs: X1 (1); X2 (1)" in text
    assert "Compare with care" not in shown([row("a", 2.0)])


def test_tables_of_flags_samples_and_answers_come_where_there_is_something_to_say() -> None:
    keys = [t.key for t in tables([row("a", 2.0).row])]
    assert keys == ["results", "speed", "costs"]
    flat = row("a", 2.0).row
    more = [flat.model_copy(update={"sample": 1, "flags": ("zeros pass",), "final": flat.best}), flat]
    made = {
        t.key: t
        for t in tables([*more, row("b", 2.0).row, row("b", 2.0).row.model_copy(update={"sample": 1})])
    }
    assert list(made) == ["results", "speed", "answers", "flagged", "samples", "costs"]
    assert [line.cells for line in made["samples"].lines] == [
        ("scripted", "1", "100.0", "100.0"),
        ("scripted", "2", "100.0", "100.0"),
    ]


def test_a_spreadsheet_runs_nothing() -> None:
    cells = list(csv.DictReader(io.StringIO(tables_csv([row("=cmd()", 2.0)]))))
    assert cells[0]["task"] == "'=cmd()"
    assert cells[0]["paper_vs_eager"] == "2.0"


def test_highlighting_keeps_the_text() -> None:
    text = "if x < 1:  # <b>\n    return '&'\n"
    shown = highlighted(text)
    assert '<span class="kw">if</span>' in shown
    assert re.sub(r"<[^>]*>", "", shown) == "if x &lt; 1:  # &lt;b&gt;\n    return &#x27;&amp;&#x27;\n"
