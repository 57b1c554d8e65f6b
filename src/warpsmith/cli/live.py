"""The live view of an episode: each turn, and what a model says and does while it does it."""

from typing import TYPE_CHECKING

from warpsmith.types.llm import Role

if TYPE_CHECKING:
    from warpsmith.cli.progress import Reporter
    from warpsmith.types import Turn, Verdict
    from warpsmith.types.llm import Entry

_LINE = 160
_TAIL = 60


class Teller:
    """Tells a person of an episode's steps; of a model's words as they come."""

    def __init__(self, progress: "Reporter") -> None:
        self._progress = progress
        self._saying = ""

    def turn(self, turn: "Turn", verdict: "Verdict | None") -> None:
        """One line a step, and what it took."""
        from warpsmith.report import headline

        said = f" — {headline(verdict)}" if verdict else ""
        usage = turn.usage
        took = f" ({usage.input_tokens} tokens in, {usage.output_tokens} out)" if usage else ""
        self._progress.note(f"{turn.index + 1}. {turn.note}{said}{took}")

    def scoring(self, submission_hash: str) -> None:
        """One line before the score."""
        self._progress.note(f"judging the best submission ({submission_hash[:8]}) afresh for the score")

    def entry(self, entry: "Entry") -> None:
        """One line for each call and each result; a person sees the model's text from `hear`."""
        self._saying = ""
        if entry.reply is not None:
            for call in entry.reply.message.calls:
                self._progress.note(f"   > {call.name} {_one_line(call.arguments)}")
        elif entry.message is not None and entry.message.role is Role.TOOL:
            mark = "!" if entry.message.is_error else "<"
            self._progress.note(f"   {mark} {_one_line(entry.message.text)}")

    def hear(self, text: str) -> None:
        """The end of what the model is saying, in the line that is redrawn."""
        self._saying = (self._saying + text)[-4 * _TAIL :]
        self._progress.phase("model", printable(" ".join(self._saying.split())[-_TAIL:]))


def printable(text: str) -> str:
    """Without control characters, which a model could use to write over the terminal."""
    return "".join(character if character.isprintable() else "�" for character in text)


def _one_line(text: str) -> str:
    line = printable(" ".join(text[: 4 * _LINE].split()))
    return line if len(line) <= _LINE else line[: _LINE - 1] + "…"
