"""How an episode went, in lines: why it ended, what it took, and its best result beside its final answer."""

from collections.abc import Iterator, Mapping

from warpsmith.report.verdict_text import headline
from warpsmith.types import Episode, Verdict
from warpsmith.types.llm import Usage


def episode_lines(episode: Episode, verdicts: Mapping[str, Verdict]) -> Iterator[str]:
    """List items in Markdown; `verdicts` by hash."""
    calls = sum(turn.calls for turn in episode.turns)
    turns = f"{len(episode.turns)} turns" if len(episode.turns) != 1 else "1 turn"
    called = f" with {calls} calls" if calls else ""
    yield f"- ended: {episode.stop.value}, after {turns}{called} and {episode.seconds:.0f} s"
    if episode.usage is not None:
        yield f"- tokens: {usage_text(episode.usage)}"
    if episode.bad_calls:
        yield f"- calls that did not fit any tool: {episode.bad_calls}"
    if episode.seed is not None:
        yield f"- seed of the sampling: {episode.seed}"
    if best := verdicts.get(episode.final_verdict_hash or ""):
        yield f"- best: {headline(best)}"
    if episode.answer_submission_hash is None:
        return
    if episode.answer_submission_hash == episode.best_submission_hash:
        yield "- final answer: the best itself"
    elif answer := verdicts.get(episode.answer_verdict_hash or ""):
        yield f"- final answer: {headline(answer)}"


def usage_text(usage: Usage) -> str:
    """Tokens, and the cost where it is known."""
    counted = "" if usage.counted else ", estimated"
    cost = f", {usage.cost_usd:.4f} US dollars" if usage.cost_usd is not None else ""
    cached = f" ({usage.cache_read_tokens} from a cache)" if usage.cache_read_tokens else ""
    return f"{usage.input_tokens} in{cached}, {usage.output_tokens} out{counted}{cost}"
