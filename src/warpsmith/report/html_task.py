"""A task's part of the page: what was asked, written, judged, measured and said."""

import html
from collections.abc import Iterator

from warpsmith.report.charts import histogram
from warpsmith.report.highlight import MAX_CHARS, highlighted
from warpsmith.report.rows import TaskRow
from warpsmith.report.verdict_text import headline, verdict_lines
from warpsmith.reward import reward_of

esc = html.escape


def task_id(index: int) -> str:
    """The anchor of the task at `index` of the page: no text of a task is in it."""
    return f"task-{index}"


def task_section(row: TaskRow, index: int) -> str:
    """A closed fold with everything about the task."""
    mark = "good" if row.passed else "bad"
    said = f'{esc(row.name)} <span class="{mark}">{esc(row.status)}</span>'
    said += f' <span class="dim">{esc(row.row.series)}</span>'
    inside = "".join(_inside(row))
    return f'<details class="task" id="{task_id(index)}"><summary>{said}</summary>{inside}</details>'


def _inside(row: TaskRow) -> Iterator[str]:
    verdict = row.verdict
    if verdict is None:
        why = f": {row.row.detail}" if row.row.detail else ""
        yield f'<p class="dim">No verdict: {esc(row.row.state.value + why)}.</p>'
    else:
        yield f"<h3>Verdict</h3><pre>{esc(chr(10).join(verdict_lines(verdict, reward_of(verdict))))}</pre>"
        if verdict.timings:
            samples = verdict.timings.candidate.samples_ms
            yield histogram(samples, "the candidate's time in milliseconds, one count a bracket")
    if row.episode and row.episode.turns:
        yield "<h3>Turns</h3><ol>"
        for turn in row.episode.turns:
            judged = row.verdicts.get(turn.verdict_hash or "")
            said = f" — {headline(judged)}" if judged else ""
            yield f"<li>{esc(turn.note + said)}</li>"
        yield "</ol>"
    if row.submission:
        for path, text in row.submission.files.items():
            yield f"<h3>{esc(path)}</h3><pre><code>{highlighted(text)}</code></pre>"
    if row.task:
        yield f"<h3>Reference</h3><pre><code>{highlighted(row.task.code)}</code></pre>"
    if row.transcript:
        cut = "" if len(row.transcript) <= MAX_CHARS else "\n[… cut]"
        yield f"<details><summary>Transcript</summary><pre>{esc(row.transcript[:MAX_CHARS] + cut)}</pre></details>"
