"""An episode on a model of this process: calls come out of its text, results go into its chat template."""

from pathlib import Path

import pytest
from tests.agent.loop import play
from tests.llm import tiny

from warpsmith.agent.settings import AgentSettings
from warpsmith.llm import LLMSettings, connect
from warpsmith.types import StopReason
from warpsmith.types.llm import Role

pytest.importorskip("torch")
pytest.importorskip("transformers")

WRITE = '<tool_call>{"name": "Bash", "arguments": {"command": "echo \'# good\' > model_new.py"}}</tool_call>'
VERIFY = '<tool_call>{"name": "Verify", "arguments": {}}</tool_call>'


def test_its_calls_are_run_and_its_tokens_kept(tmp_path: Path) -> None:
    folder = tiny.chain_model(tmp_path / "model", "I write. ", WRITE, VERIFY, context=131_072)
    llm = connect(f"hf:{folder}", LLMSettings(device="cpu"))
    settings = AgentSettings(keep_tokens=True, max_output_tokens=64, max_repeats=2)
    episode, entries = play(tmp_path / "run", llm, settings=settings, seed=3)
    # it says the same whatever it is asked
    assert episode.stop is StopReason.REPEATED and len(episode.turns) == 2
    assert (episode.turns[0].calls, episode.bad_calls) == (2, 0)
    assert episode.reward and episode.reward.milestone == 1
    replies = [entry.reply for entry in entries if entry.reply]
    assert all(r.tokens and len(r.tokens.ids) == 4 and len(r.tokens.prompt_ids) > 100 for r in replies)
    said = replies[0].message
    assert said.text == "I write."
    assert [call.name for call in said.calls] == ["Bash", "Verify"]
    results = [e.message for e in entries if e.message and e.message.role is Role.TOOL]
    assert "[PASS] verify success" in results[1].text
    # the second prompt begins with the first, which was not computed again
    first, second = (r.tokens.prompt_ids for r in replies if r.tokens)
    assert second[: len(first) // 2] == first[: len(first) // 2]
    assert replies[1].usage.cache_read_tokens > len(first) // 2
