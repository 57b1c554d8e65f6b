"""The report's tables as Markdown and CSV."""

import csv
import io
from collections.abc import Iterator, Sequence

from warpsmith.evaluation.mixing import incomparable, mixed
from warpsmith.evaluation.row import Against
from warpsmith.report.causes import cause_names
from warpsmith.report.rows import TaskRow
from warpsmith.report.spreadsheet import cell
from warpsmith.report.table import Table


def warnings(rows: Sequence[TaskRow]) -> list[str]:
    """What is mixed here, to be said aloud wherever the figures are."""
    flat = [row.row for row in rows]
    return [*mixed(flat), *incomparable(flat)]


def tables_markdown(rows: Sequence[TaskRow], title: str, figures: Sequence[Table]) -> str:
    """Every table, then every task that did not pass."""
    return "\n".join([f"# {_plain(title)}", "", *_markdown(rows, figures)]) + "\n"


def tables_csv(rows: Sequence[TaskRow]) -> str:
    """One line a task and sample; a cell that a spreadsheet would run is quoted with an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    sides = [(f"{a.kind.value}_vs_{a.side}", a) for a in Against]
    ends = [f"{name}_{end}" for name, _ in sides for end in ("low", "high")]
    writer.writerow(
        ["series", "level", "problem", "task", "sample", "status", *(name for name, _ in sides), *ends,
         "candidate_ms", "rel_error", "floor_share", "turns", "tokens", "judge_seconds", "gpu",
         "rules", "flags", "detail", "paper_cause", "matched_cause"]
    )  # fmt: skip
    for row, why in zip(rows, cause_names([row.row for row in rows]), strict=True):
        flat, v = row.row, row.verdict
        seen = [flat.measured(against) for _, against in sides]
        cells = [
            flat.series, flat.level, flat.problem_id, flat.task_name, flat.sample, row.status,
            *(m and m.ratio for m in seen), *(end for m in seen for end in ((m.low, m.high) if m else (None, None))),
            flat.best.candidate_ms if flat.best else None, v.error.rel if v and v.error else None,
            flat.best.floor_share if flat.best else None, flat.turns, flat.tokens, flat.judge_seconds,
            flat.condition.gpu if flat.condition else None, flat.condition.rules.value if flat.condition else None,
            "; ".join((*flat.unfit, *flat.flags)), flat.detail, *why,
        ]  # fmt: skip
        writer.writerow(map(cell, cells))
    return out.getvalue()


def _markdown(rows: Sequence[TaskRow], figures: Sequence[Table]) -> Iterator[str]:
    yield covered(rows)
    for line in warnings(rows):
        yield f"\n**Compare with care: {_plain(line)}.**"
    for table in figures:
        yield f"\n## {table.title}\n"
        yield _row(*(_plain(head) for head in table.heads))
        yield "|" + "".join("---|" if table.is_text(i) else "---:|" for i in range(len(table.heads)))
        yield from (_row(*(_plain(cell) for cell in line.cells)) for line in table.lines)
        if table.note:
            yield f"\n{_plain(table.note)}"
    failed = [row for row in rows if not row.passed and not row.row.unanswered]
    if failed:
        yield "\n## Not passed\n"
        yield "| task | whose | status | detail |"
        yield "|---|---|---|---|"
    for row in failed:
        yield _row(_plain(row.name), _plain(row.row.series), row.status, _plain(row.row.detail))


def covered(rows: Sequence[TaskRow]) -> str:
    """How many tasks and samples there are, and on what they were judged, in one line."""
    tasks = len({row.row.task_key for row in rows})
    samples = "" if len(rows) == tasks else f", {len(rows)} rows"
    where = dict.fromkeys(
        f"{row.row.condition.gpu}, {row.row.versions or 'versions unknown'}, {row.row.condition.rules.value} rules"
        for row in rows
        if row.row.condition
    )
    return f"{tasks} task{'' if tasks == 1 else 's'}{samples}; {'; '.join(where) or 'nothing judged'}"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _plain(text: str) -> str:
    flat = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return "".join(f"\\{c}" if c in "\\|`*_[]@#!" else c for c in flat)[:400]
