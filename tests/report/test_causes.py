"""What costs most by cause, as the page, the Markdown file, the CSV and the end of a run show it."""

import csv
import io
from pathlib import Path

from tests.evaluation.tables import absent, row

from warpsmith.evaluation.causes import costs_by_cause
from warpsmith.evaluation.row import Row, State
from warpsmith.report.causes import cause_lines, cause_names, causes_csv, causes_table
from warpsmith.report.html import page
from warpsmith.report.rows import TaskRow
from warpsmith.report.tables import tables_csv, tables_markdown
from warpsmith.reward import SpeedupKind
from warpsmith.types import Status, StopReason


def uncovered(name: str, *operators: str, said: str = "") -> Row:
    found = {"stop": StopReason.FINISHED, "left": operators, "detail": said}
    return absent(name, State.NOTHING_SUBMITTED).model_copy(update=found)


ROWS = [
    row("quick", 4.0, 4.0, matched=4.0),
    row("slow", 0.5, 0.5, matched=2.0),
    uncovered("net", "aten.lstm.input", said="=1+1 [nothing owned]"),
    row("off", status=Status.WRONG),
]


def test_the_table_has_a_line_a_cause_under_each_protocol() -> None:
    table = causes_table(ROWS)
    assert table is not None
    cells = [line.cells[1:] for line in table.lines]
    # paper: quick alone is faster, at 4×; matched: quick and slow are, together at 2.83×
    assert cells == [
        ("paper", "slower, nothing tells why", "1", "0", "0.0", "25.0", "1.682", "slow", ""),
        ("paper", "not covered, left to PyTorch (aten.lstm.input)", "1", "0", "25.0", "25.0", "1.414", "net",
         "=1+1 [nothing owned]"),
        ("paper", "wrong", "1", "0", "25.0", "25.0", "1.414", "off", ""),
        ("matched", "not covered, left to PyTorch (aten.lstm.input)", "1", "0", "25.0", "25.0", "1.297", "net",
         "=1+1 [nothing owned]"),
        ("matched", "wrong", "1", "0", "25.0", "25.0", "1.297", "off", ""),
    ]  # fmt: skip
    assert causes_table([row("a", 2.0, 2.0, matched=2.0)]) is None


def test_page_markdown_and_csv_show_it() -> None:
    rows, table = [TaskRow(Path("run"), one) for one in ROWS], causes_table(ROWS)
    assert table is not None
    shown = page(rows, "t", [table])
    assert shown.index('<h2 id="table-causes">What costs most, by cause</h2>') > shown.index(
        '<section id="failures">'
    )
    assert '<td class="wrap">=1+1 [nothing owned]</td>' in shown and '<td class="num">1.682</td>' in shown
    text = tables_markdown(rows, "t", [table])
    assert "| scripted | paper | wrong | 1 | 0 | 25.0 | 25.0 | 1.414 | off |  |" in text
    lines = list(csv.DictReader(io.StringIO(causes_csv(ROWS))))
    assert [(line["protocol"], line["cause"], line["what"], line["tasks"]) for line in lines[:2]] == [
        ("paper", "slower, nothing tells why", "", "slow"),
        ("paper", "not covered, left to PyTorch", "aten.lstm.input", "net"),
    ]
    # a spreadsheet would run it
    assert lines[1]["example"] == "'=1+1 [nothing owned]" and float(lines[1]["faster_share"]) == 0.25
    tasks = list(csv.DictReader(io.StringIO(tables_csv(rows))))
    assert [(t["paper_cause"], t["matched_cause"]) for t in tasks][:2] == [
        ("", ""),
        ("slower, nothing tells why", ""),
    ]
    assert cause_names(ROWS)[2] == ("not covered, left to PyTorch (aten.lstm.input)",) * 2


def test_many_tasks_are_named_in_the_csv_alone() -> None:
    rows = [absent(f"t{n:02}") for n in range(12)]
    (line,) = (causes_table(rows) or AssertionError).lines
    assert line.cells[1:3] == ("–", "never begun")
    assert line.cells[8] == "t00, t01, t02, t03, t04, t05, t06, t07 and 4 more"
    (told,) = csv.DictReader(io.StringIO(causes_csv(rows)))
    assert told["tasks"].split("; ") == [f"t{n:02}" for n in range(12)] and told["protocol"] == ""


def test_below_a_run_the_dearest_come_first() -> None:
    rows = [*ROWS, *(row(f"x{s}", status=s) for s in (Status.CRASHED, Status.TIMED_OUT, Status.UNSTABLE))]
    rows += [absent("m1"), absent("m2")]
    lines = cause_lines(costs_by_cause(rows, SpeedupKind.PAPER))
    assert lines[0] == "never begun: 2 samples, 22.2 points of passed, geomean ×1.361: m1, m2"
    assert lines[1] == "slower, nothing tells why: 1 sample, 11.1 points of faster, geomean ×1.260: slow"
    assert len(lines) == 6 and lines[-1] == "2 more causes"
