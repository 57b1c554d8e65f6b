"""What was said in an episode, as a page that a person can read."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from warpsmith.report.episode_text import episode_lines
from warpsmith.report.verdict_text import headline
from warpsmith.rollout.journal import journal_path, read_journal
from warpsmith.store import RunReader, write_atomic
from warpsmith.types import Episode, Verdict
from warpsmith.types.llm import Entry, Reply, Role, ToolCall

TRANSCRIPT_FILE = "transcript.md"
_MAX_CHARS = 20_000


def write_transcript(run: RunReader, out: Path, episode: Episode) -> Path | None:
    """Writes `transcript.md`; None where no model took part. Raises InfrastructureError."""
    entries = read_journal(journal_path(run.path, episode.episode_id))
    if not entries:
        return None
    verdicts = {verdict.content_hash: verdict for verdict in run.verdicts()}
    write_atomic(out / TRANSCRIPT_FILE, transcript(episode, entries, verdicts))
    return out / TRANSCRIPT_FILE


def transcript(episode: Episode, entries: Sequence[Entry], verdicts: dict[str, Verdict]) -> str:
    """Markdown: how the episode ended, then turn by turn what was said, called, answered and judged."""
    lines = [f"# {episode.task_name}: {episode.policy}", "", *episode_lines(episode, verdicts)]
    turn = None
    for entry in entries:
        if entry.turn != turn:
            turn = entry.turn
            lines += ["", f"## Turn {turn + 1}"]
        lines += ["", *_entry(entry, verdicts)]
    return "\n".join(lines) + "\n"


def _entry(entry: Entry, verdicts: dict[str, Verdict]) -> Iterator[str]:
    if entry.reply is not None:
        yield from _reply(entry.reply)
    elif entry.judged is not None:
        verdict = verdicts.get(entry.verdict_hash or "")
        yield f"**Judged** {entry.judged[:12]}: {headline(verdict) if verdict else 'verdict lost'}"
    elif (message := entry.message) is not None:
        if message.role is Role.TOOL:
            yield "**Failed:**" if message.is_error else "**Result:**"
            yield _fenced(message.text)
        else:
            # headings of a prompt are not the page's
            yield f"<details><summary>{message.role.value}</summary>\n\n{_fenced(message.text)}\n\n</details>"
        if message.images:
            yield f"\n({len(message.images)} images)"


def _reply(reply: Reply) -> Iterator[str]:
    if reply.reasoning:
        yield f"<details><summary>thoughts</summary>\n\n{_fenced(reply.reasoning)}\n\n</details>"
    yield _quoted(reply.message.text) if reply.message.text.strip() else "(no text)"
    for call in reply.message.calls:
        yield f"\n**{_plain(call.name)}**"
        yield _arguments(call)
    if reply.attempts > 1:
        yield f"\n({reply.attempts} requests)"


def _arguments(call: ToolCall) -> str:
    """Long strings as they read, not as JSON writes them."""
    try:
        found = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return _fenced(call.arguments)
    if not isinstance(found, dict):
        return _fenced(call.arguments)
    parts = []
    for name, value in found.items():
        if isinstance(value, str) and "\n" in value:
            parts.append(f"{_plain(name)}:\n{_fenced(value)}")
        else:
            parts.append(f"{_plain(name)}: `{_plain(json.dumps(value, ensure_ascii=False))}`")
    return "\n".join(f"\n{part}" for part in parts)


def _plain(text: str) -> str:
    return " ".join(text.replace("`", "'").split())[:_MAX_CHARS]


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text[:_MAX_CHARS].splitlines())


def _fenced(text: str) -> str:
    """A block whose fence is longer than any in the text, so that nothing in it ends it."""
    shown = (
        text
        if len(text) <= _MAX_CHARS
        else f"{text[:_MAX_CHARS]}\n[... {len(text) - _MAX_CHARS} more characters ...]"
    )
    longest = max((len(run) for run in re.findall(r"`{3,}", shown)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{shown.rstrip()}\n{fence}"
