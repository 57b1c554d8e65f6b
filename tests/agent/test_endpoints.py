"""A model's service that fails in the middle of an episode: the right stop reason, and all before it stored."""

import json
from pathlib import Path

import pytest
from tests.agent.loop import play, results
from tests.llm.server import USAGE, Answer, body, delta, events, serving, silent, status

from warpsmith.llm import LLMSettings, connect
from warpsmith.store import RunReader
from warpsmith.types import StopReason


def calling(*calls: tuple[str, str]) -> Answer:
    """An answer that streams calls, two at once where two are given; arguments as text."""
    asked = [
        {"index": at, "id": f"c{at}", "function": {"name": name, "arguments": arguments}}
        for at, (name, arguments) in enumerate(calls)
    ]
    return events(delta(calls=asked), delta(finish="tool_calls"), USAGE)


WORK = calling(("Bash", json.dumps({"command": "echo '# good' > model_new.py"})), ("Verify", "{}"))
DONE = events(delta("done", finish="stop"), USAGE)


@pytest.mark.parametrize(
    ("fails", "reason"),
    [
        (silent(2.0), StopReason.MODEL_UNAVAILABLE),
        (status(429, Retry_After="0"), StopReason.MODEL_UNAVAILABLE),
        (status(500), StopReason.MODEL_UNAVAILABLE),
        (body("data: {not json\n\n", "text/event-stream"), StopReason.MODEL_UNREADABLE),
        (events(), StopReason.MODEL_UNREADABLE),
        (events({"choices": []}, USAGE), StopReason.MODEL_UNREADABLE),
        (events(delta("half"), done=False), StopReason.MODEL_UNREADABLE),
    ],
    ids=["time-out", "429", "500", "malformed", "nothing", "empty choices", "broken off"],
)
def test_an_endpoint_that_fails_after_good_work(tmp_path: Path, fails: Answer, reason: StopReason) -> None:
    with serving(WORK, fails) as served:
        llm = connect(
            "openai:tiny", LLMSettings(endpoint=served.url, attempts=2, first_wait_s=0, silence_s=0.5)
        )
        episode, entries = play(tmp_path, llm)
    assert (episode.stop, len(episode.turns), len(served.asked)) == (reason, 2, 3)
    assert episode.reward and episode.reward.milestone == 1
    assert episode.usage and episode.usage.input_tokens == 100
    assert "[PASS] verify success" in results(entries)[1]
    assert RunReader(tmp_path).submission(episode.answer_submission_hash or "") is not None


def test_calls_that_servers_pass_on_as_they_came(tmp_path: Path) -> None:
    """Unknown names, arguments that break off, more calls than a turn may make: answered, counted, never the end."""
    odd = calling(("Reed", "{}"), ("Read", '{"file_path": "mod'), ("Read", "[]"))
    many = calling(*(("TodoWrite", '{"todos": []}') for _ in range(40)))
    with serving(odd, many, WORK, DONE) as served:
        episode, entries = play(tmp_path, connect("openai:tiny", LLMSettings(endpoint=served.url)))
    assert (episode.stop, episode.bad_calls) == (StopReason.FINISHED, 3)
    assert [turn.calls for turn in episode.turns] == [3, 40, 2, 0]
    assert sum("at most 32 calls a turn" in said for said in results(entries)) == 8
    assert episode.reward and episode.reward.milestone == 1


def test_one_call_again_and_again(tmp_path: Path) -> None:
    with serving(calling(("Bash", '{"command": "true"}'))) as served:
        episode, _ = play(tmp_path, connect("openai:tiny", LLMSettings(endpoint=served.url)))
    assert (episode.stop, len(episode.turns)) == (StopReason.REPEATED, 6)
