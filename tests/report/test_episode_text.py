"""How an episode of a language model went, in its report and its transcript."""

from pathlib import Path

import pytest
from tests.agent.loop import DONE, VERIFY, play, says, scripted, writes

from warpsmith.report import write_result
from warpsmith.report.transcript import write_transcript
from warpsmith.store import RunReader
from warpsmith.types.llm import Usage


@pytest.mark.parametrize(("last", "answer"), [("bad two", "wrong"), ("good one", "the best itself")])
def test_why_it_ended_what_it_took_and_the_answer_beside_the_best(
    tmp_path: Path, last: str, answer: str
) -> None:
    spent = Usage(input_tokens=90, output_tokens=10, cache_read_tokens=40, cost_usd=0.25)
    replies = (
        says("a", writes("good one"), VERIFY, ("Reed", {})),
        says("b", writes(last), VERIFY),
        DONE,
    )
    llm = scripted(*(reply.model_copy(update={"usage": spent}) for reply in replies))
    episode, _ = play(tmp_path, llm, seed=5)
    run = RunReader(tmp_path)
    write_result(run, tmp_path)
    write_transcript(run, tmp_path, episode)
    for page in ("report.md", "transcript.md"):
        said = (tmp_path / page).read_text()
        assert "- ended: finished, after 3 turns with 5 calls and " in said
        assert "- tokens: 270 in (120 from a cache), 30 out, 0.7500 US dollars" in said
        assert "- calls that did not fit any tool: 1" in said and "- seed of the sampling: 5" in said
        assert "- best: passed" in said and f"- final answer: {answer}" in said
    report = (tmp_path / "report.md").read_text()
    assert (
        "1. a [Bash, Verify, Reed]" in report
        and "(90 in (40 from a cache), 10 out, 0.2500 US dollars)" in report
    )
